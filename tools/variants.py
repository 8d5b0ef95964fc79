"""Builds the library with other values of its policies, for benches/bench.py --against to compare.

    python3 tools/variants.py staging_threads=2 'slots=[8, 4, 8]; dma_slot_bytes=8 << 20'

Each argument makes a library of that name in target/variants; `base.so` is the unchanged library.
Values of src/policy, crates/ptx/src/policy.rs and crates/cost/src/policy.rs can be replaced.
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


POLICIES = [*ROOT.glob("src/policy/*.rs"), *ROOT.glob("crates/*/src/policy.rs")]


def with_values(variant: str) -> dict[Path, str]:
    """Returns the sources of the policies with some values replaced, by their places."""
    sources = {path.relative_to(ROOT): path.read_text() for path in POLICIES}
    for setting in variant.split(";"):
        name, _, value = (part.strip() for part in setting.partition("="))
        line = rf"^( +{name}:| *pub.* const {name.upper()}: .* =)\s+[^\n]+([,;])$"
        constant = re.compile(line, re.MULTILINE)
        places = [path for path, text in sources.items() if constant.search(text)]
        if len(places) != 1 or len(constant.findall(sources[places[0]])) != 1:
            sys.exit(f"{name} is not the name of one value of the policies")
        sources[places[0]] = constant.sub(rf"\1 {value}\2", sources[places[0]])
    return sources


def build(name: str) -> None:
    """Builds the library in a tree."""
    command = ["cargo", "build", "--release", "--quiet", "--lib", "--target-dir", BUILD]
    subprocess.run(command, cwd=TREE, check=True)
    library = VARIANTS / f"{name}.so"
    shutil.copy(BUILD / "release" / "libgpuvec.so", library)
    print(library)


def main() -> None:
    """Builds all variants."""
    variants = {variant: with_values(variant) for variant in sys.argv[1:]}
    shutil.rmtree(TREE, ignore_errors=True)
    for stale in VARIANTS.glob("*.so"):
        stale.unlink()
    shutil.copytree(ROOT, TREE, ignore=LEFT_OUT)
    build("base")
    for variant, sources in variants.items():
        for path, text in sources.items():
            (TREE / path).write_text(text)
        build(re.sub(r"[^\w.=,+-]+", "", variant.replace("<<", "x").replace(";", "+")))


if __name__ == "__main__":
    main()
