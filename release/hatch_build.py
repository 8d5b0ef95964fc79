"""hatchling's hook: builds the library for a wheel, and adds the crates to a source distribution.

GPUVEC_GLIBC=2.17 builds with zig for that glibc and every newer one, and tags the wheel so. Without
it cargo builds for the glibc of this machine. GPUVEC_PROCESSOR=aarch64 builds for another processor
than this machine's. GPUVEC_BUILT=target/release/libgpuvec.so builds nothing, and packs this library
and the extension module beside it.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Optional

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.append(str(Path(__file__).parent))
from crates import PROCESSORS, built_crates, metadata, target  # noqa: E402

HEADERS = ("gpuvec.h", "gpuvec.hpp")
# The largest folders of crates, for processors that are neither x86 nor Arm: 15 MB.
UNUSED_FOLDERS = "linux-raw-sys-*/src/[!ax]*"
CARGO_CONFIG = """
[source.crates-io]
replace-with = "vendored"

[source.vendored]
directory = "vendor"
"""


class Hook(BuildHookInterface):
    """Adds the files that are not in the repository to what hatchling packs."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Runs before the files are collected."""
        root = Path(self.root)
        if self.target_name == "sdist":
            self.vendored = tempfile.TemporaryDirectory()
            build_data["force_include"].update(vendor(root, Path(self.vendored.name)))
            return
        glibc = os.environ.get("GPUVEC_GLIBC")
        processor = os.environ.get("GPUVEC_PROCESSOR") or platform.machine()
        if processor not in PROCESSORS:
            sys.exit(f"gpuvec runs on {' and '.join(PROCESSORS)}, not on {processor}")
        system = f"manylinux_{glibc.replace('.', '_')}" if glibc else "linux"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{system}_{processor}"
        library = os.environ.get("GPUVEC_BUILT")
        built = root / Path(library).parent if library else build(root, target(processor), glibc)
        build_data["force_include"] |= {
            str(built / "libgpuvec.so"): "gpuvec/libgpuvec.so",
            # Python versions for which this name says nothing do not load it.
            str(built / "libgpuvec_python.so"): "gpuvec/_native.abi3.so",
            **{str(root / "include" / name): f"gpuvec/include/{name}" for name in HEADERS},
        }


def build(root: Path, target: str, glibc: Optional[str]) -> Path:
    """Builds the library and the extension module, with no path of this machine inside.

    Returns their folder.
    """
    if not shutil.which("cargo"):
        sys.exit("gpuvec is built with cargo, which was not found: install Rust")
    command = ["cargo", "zigbuild" if glibc else "build", "--release", "--locked", "--lib"]
    # The two do not share files: cargo does not see that the linker is another one.
    folder = root / "target/wheel" / (glibc or "this_machine")
    subprocess.run(
        [*command, "--target", f"{target}.{glibc}" if glibc else target, "--target-dir", folder],
        cwd=root,
        env={**os.environ, "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(remapped_paths(root))},
        check=True,
    )
    return folder / target / "release"


def remapped_paths(root: Path) -> list[str]:
    """The compiler's options that give sources the same paths on every machine."""
    sysroot = subprocess.check_output(["rustc", "--print=sysroot"], text=True).strip()
    version = subprocess.check_output(["rustc", "-vV"], text=True)
    [commit] = [line.split()[1] for line in version.splitlines() if line.startswith("commit-hash")]
    # The standard library's own path, unless its sources are installed.
    paths = {f"{sysroot}/lib/rustlib/src/rust": f"/rustc/{commit}", root: "gpuvec"}
    for crate in metadata(root)["packages"]:
        if crate["source"]:
            paths[Path(crate["manifest_path"]).parents[1]] = "crates"
    return [f"--remap-path-prefix={path}={name}" for path, name in paths.items()]


def vendor(root: Path, folder: Path) -> dict:
    """Collects the crates that a build needs; returns where each file goes.

    cargo reads the manifest of every crate in Cargo.lock. Those that are not built, for tests or
    other systems, are reduced to it.
    """
    crates = folder / "vendor"
    command = ["cargo", "vendor", "--quiet", "--locked", "--versioned-dirs", str(crates)]
    subprocess.run(command, cwd=root, stdout=subprocess.DEVNULL, check=True)
    used = {f"{crate['name']}-{crate['version']}" for crate in built_crates(root)}
    for crate in crates.iterdir():
        if crate.name not in used:
            reduce_to_manifest(crate)
        forget_checksums(crate / ".cargo-checksum.json")
    for path in filter(Path.is_dir, crates.glob(UNUSED_FOLDERS)):
        shutil.rmtree(path)
    config = folder / "config.toml"
    config.write_text((root / ".cargo/config.toml").read_text() + CARGO_CONFIG)
    return {str(crates): "vendor", str(config): ".cargo/config.toml"}


def reduce_to_manifest(crate: Path) -> None:
    """Leaves the manifest, and the empty source that older ones imply."""
    for path in crate.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in ("Cargo.toml", ".cargo-checksum.json"):
            path.unlink()
    (crate / "src").mkdir()
    (crate / "src/lib.rs").touch()


def forget_checksums(path: Path) -> None:
    """Leaves the crate's checksum, which Cargo.lock has too, and drops those of its files."""
    path.write_text(json.dumps({**json.loads(path.read_text()), "files": {}}))
