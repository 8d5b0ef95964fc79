"""The contents of the wheel, the source distribution and the archive for C programs."""

import json
import os
import platform
import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from bindings import LIBRARY, ROOT
from programs import compile_c, run

pytestmark = [pytest.mark.wheel, pytest.mark.any_driver]

C_PROGRAM = """\
#include <gpuvec.h>

int main(void) {
    float a[3] = {1, 2, 3}, out[3];
    return vector_add(a, a, out, 3) != 0 || out[2] != 6;
}
"""
HEADERS = ("gpuvec.h", "gpuvec.hpp")
GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}
# The numbers of processors in ELF's header.
ELF_MACHINES = {"x86_64": 62, "aarch64": 183}


def test_the_wheel_is_small(dist, processor):
    """Compressed, the library, of less than 3.5 MB, takes most of it."""
    [wheel] = dist.glob(f"*_{processor}.whl")
    assert wheel.stat().st_size <= 2_000_000


def test_the_wheel_and_the_archive_are_for_their_processor(dist, processor):
    [path] = dist.glob(f"*_{processor}.whl")
    with zipfile.ZipFile(path) as wheel:
        libraries = [wheel.read(f"gpuvec/{name}") for name in ("libgpuvec.so", "_native.abi3.so")]
    [path] = dist.glob(f"libgpuvec-*-{processor}.tar.gz")
    with tarfile.open(path) as archive:
        [library] = [file for file in archive if file.isfile() and ".so." in file.name]
        assert archive.extractfile(library).read() == libraries[0]
    for elf in libraries:
        assert int.from_bytes(elf[18:20], "little") == ELF_MACHINES[processor]


def test_the_wheel_needs_numpy_alone(wheel):
    [metadata] = [text for name, text in wheel.items() if name.endswith("/METADATA")]
    assert re.findall(r"^Requires-Dist: (\w+)", metadata.decode(), re.MULTILINE) == ["numpy"]


def test_the_wheel_names_its_authors_and_licence(wheel):
    [metadata] = [text.decode() for name, text in wheel.items() if name.endswith("/METADATA")]
    fields = dict(re.findall(r"^([\w-]+): (.+)$", metadata.split("\n\n")[0], re.MULTILINE))
    assert fields["Author"] == "gpuvec contributors"
    assert fields["License-Expression"] == "MIT OR Apache-2.0"
    assert fields["Summary"] and fields["Keywords"]


def test_the_description_has_no_link_that_an_index_cannot_follow(wheel):
    """README.md's lead into the repository."""
    [metadata] = [text.decode() for name, text in wheel.items() if name.endswith("/METADATA")]
    description = metadata.split("\n\n", 1)[1]
    assert description.startswith("# gpuvec\n")
    for target in re.findall(r"\]\(([^)]+)\)", description):
        assert "://" in target, target


def test_the_description_links_to_the_site_if_its_address_is_known():
    pytest.importorskip("hatchling")
    sys.path.append(str(ROOT / "release"))
    from hatch_readme import description

    text = "![a chart](docs/benchmarks/a.svg) [sums](docs/explanation/sums.md#cost) [MIT](LICENSE)"
    assert description(text, None) == " sums MIT"
    site = "https://example.org/"
    chart, sums = f"{site}_images/a.svg", f"{site}explanation/sums.html#cost"
    assert description(text, site) == f"![a chart]({chart}) [sums]({sums}) MIT"


def test_the_wheel_has_the_whole_package(wheel):
    package = ROOT / "python/gpuvec"
    files = [path for path in package.rglob("*") if path.suffix in (".py", ".typed")]
    for path in files:
        assert wheel[f"gpuvec/{path.relative_to(package)}"] == path.read_bytes()
    packed = {name for name in wheel if not name.startswith("gpuvec-")}
    others = {"gpuvec/libgpuvec.so", "gpuvec/_native.abi3.so"}
    others |= {f"gpuvec/include/{name}" for name in HEADERS}
    assert others < packed and len(packed) == len(files) + len(others) and len(files) > 1


@pytest.mark.parametrize("name", HEADERS)
def test_the_wheel_and_the_archive_have_the_headers(wheel, archive, name):
    header = (ROOT / "include" / name).read_bytes()
    assert wheel[f"gpuvec/include/{name}"] == archive[f"include/{name}"] == header


def test_the_tests_run_on_the_wheels_library(wheel):
    assert LIBRARY.read_bytes() == wheel["gpuvec/libgpuvec.so"]


def test_the_archive_has_the_wheels_library(wheel, archive):
    libraries = [text for name, text in archive.items() if name.startswith("lib/libgpuvec.so")]
    assert libraries and set(libraries) == {wheel["gpuvec/libgpuvec.so"]}


@pytest.mark.skipif(bool(os.environ.get("BUILT")), reason="BUILT is for the glibc of this machine")
def test_the_library_needs_an_old_glibc_and_nothing_else(dist):
    """By readelf, besides auditwheel's check when the wheel is made."""
    needed = re.findall(r"NEEDED.*\[(.+)\]", run(["readelf", "-d", "--wide", LIBRARY]))
    assert needed and set(needed) <= GLIBC
    versions = re.findall(r"\bGLIBC_([\d.]+)", run(["readelf", "-V", "--wide", LIBRARY]))
    assert versions and max(tuple(map(int, text.split("."))) for text in versions) <= (2, 17)


def test_the_library_has_no_path_of_its_builder(wheel):
    """Not the folder of the sources, not the home folder, where cargo and rustup have theirs."""
    library = wheel["gpuvec/libgpuvec.so"]
    for folder in ROOT, Path.home(), Path("/tmp"):
        assert f"{folder}/".encode() not in library
    assert b"crates/lzma-rust2-" in library, "paths are kept, but those of no machine"


def test_a_program_builds_with_the_unpacked_archive(dist, tmp_path):
    [path] = dist.glob(f"libgpuvec-*-{platform.machine()}.tar.gz")
    with tarfile.open(path) as files:
        files.extractall(tmp_path)
    [folder] = tmp_path.iterdir()
    source, built = tmp_path / "program.c", tmp_path / "program"
    source.write_text(C_PROGRAM)
    link = [f"-L{folder}/lib", "-lgpuvec", f"-Wl,-rpath,{folder}/lib"]
    compile_c(source, built, f"-I{folder}/include", *link)
    run([built])


def test_the_source_distribution_has_every_crate(sdist):
    """cargo reads the manifest of each crate in Cargo.lock, also where it does not build it."""
    locked = sdist["Cargo.lock"].decode().split("[[package]]")
    crates = [dict(re.findall(r'^(\w+) = "(.+)"', text, re.MULTILINE)) for text in locked]
    others = [crate for crate in crates if "checksum" in crate]
    assert len(others) > 50
    for crate in others:
        folder = f"vendor/{crate['name']}-{crate['version']}"
        assert f"{folder}/Cargo.toml" in sdist
        checksums = json.loads(sdist[f"{folder}/.cargo-checksum.json"])
        assert checksums["package"] == crate["checksum"]


@pytest.mark.parametrize("name", ["kernels/reduction.cu", "src/lib.rs", "python/gpuvec/py.typed"])
def test_the_source_distribution_has_the_sources(name, sdist):
    assert sdist[name] == (ROOT / name).read_bytes()


def test_the_checksums_are_right(dist):
    run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=dist)


def test_the_installed_package_works_from_any_folder(dist, tmp_path):
    """With this Python, in which `make test-wheel` installed the wheel."""
    script = "import gpuvec, numpy; print(gpuvec.sum(numpy.ones(3))); print(gpuvec.__file__)"
    result, file = run([sys.executable, "-I", "-c", script], cwd=tmp_path).splitlines()
    assert float(result) == 3 and str(ROOT / "python") not in file
