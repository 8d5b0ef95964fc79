"""Builds the library with other values of src/tuning.rs, for benches/bench.py --against to compare.

    python3 tools/variants.py STAGING_THREADS=2 'SLOTS=[8, 4, 8]; DMA_SLOT_BYTES=8 << 20'

Each argument makes a library of that name in target/variants; `base.so` is the unchanged library.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VARIANTS = ROOT / "target" / "variants"
TREE, BUILD = VARIANTS / "tree", VARIANTS / "build"
# The build's result, and the folders that a build does not need.
LEFT_OUT = shutil.ignore_patterns("target", ".git", ".venv", "__pycache__", ".*")


def with_values(text: str, variant: str) -> str:
    """Returns the source of the constants with some values replaced."""
    for setting in variant.split(";"):
        name, _, value = (part.strip() for part in setting.partition("="))
        constant = rf"(pub\(crate\) const {name}: [^=]+ =) [^;]+;"
        text, count = re.subn(constant, lambda found: f"{found[1]} {value};", text)  # noqa: B023
        if count != 1:
            sys.exit(f"src/tuning.rs has no constant {name}")
    return text


def build(name: str) -> None:
    """Builds the library in a tree."""
    command = ["cargo", "build", "--release", "--quiet", "--lib", "--target-dir", BUILD]
    subprocess.run(command, cwd=TREE, check=True)
    library = VARIANTS / f"{name}.so"
    shutil.copy(BUILD / "release" / "libgpuvec.so", library)
    print(library)


def main() -> None:
    """Builds all variants."""
    tuning = (ROOT / "src" / "tuning.rs").read_text()
    sources = {variant: with_values(tuning, variant) for variant in sys.argv[1:]}
    shutil.rmtree(TREE, ignore_errors=True)
    for stale in VARIANTS.glob("*.so"):
        stale.unlink()
    shutil.copytree(ROOT, TREE, ignore=LEFT_OUT)
    build("base")
    for variant, text in sources.items():
        (TREE / "src" / "tuning.rs").write_text(text)
        build(re.sub(r"[^\w.=,+-]+", "", variant.replace("<<", "x").replace(";", "+")))


if __name__ == "__main__":
    main()
