"""Compiles the kernels of exact sums without one of their guards: tests must fail then.

    python tools/kernel_mutants.py            writes target/gpu/mutants, on any machine
    tools/on_gpu.sh mutants                   runs the kernels' tests on each, on a GPU machine

Needs the packages of kernels/requirements.txt.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KERNELS, MUTANTS = ROOT / "kernels", ROOT / "target" / "gpu" / "mutants"
sys.path.insert(0, str(KERNELS))
import build  # noqa: E402

# Writes the operations' kernels, from the templates of a folder, to another folder.
FORMULAS = "cargo run --profile fast -q -p gpuvec_ptx --example formulas --".split()

# A text of the kernels' sources, and its replacement. The check for infinities and NaN is not
# included: it only skips a batch that the witness would refuse.
GUARDS = {
    "limit": ("top <= unit + REACH", "unit != -NOT_FINITE"),
    "witness": ("left << 1 != 0", "false"),
    "range": ("unit >= this->unit - LEVEL_BITS * (LEVELS - 1)", "true"),
    "floor": ("PRODUCT_LEVELS, -968, 2", "PRODUCT_LEVELS, -1073, 2"),
    "zero": (" | vanished;", ";"),
    "carry": ("            columns.normalise();\n", ""),
    "counters": (
        "min(static_cast<unsigned>(COUNTERS), gridDim.x * (BLOCK_THREADS / WARP))",
        "COUNTERS",
    ),
}


def write_sources(folder: Path, text: str, instead: str) -> None:
    """Copies the sources to a folder, with a text replaced, which they contain once."""
    paths = [KERNELS / "reduction.cu", *KERNELS.glob("*.cuh")]
    sources = {path.name: path.read_text() for path in paths}
    if sum(source.count(text) for source in sources.values()) != 1:
        sys.exit(f"the sources of reductions do not have '{text}' once")
    for name, source in sources.items():
        (folder / name).write_text(source.replace(text, instead))


def write_templates(folder: Path) -> None:
    """Compiles the sources in a folder."""
    build.HEADERS = sorted(folder.glob("*.cuh"))
    head, *kernels = build.Compiler().ptx(folder / "reduction.cu").split(build.ENTRY)
    for kernel in kernels:
        (folder / f"{kernel.split('(')[0]}.ptx").write_text(f"{head}{build.ENTRY}{kernel}")


def main() -> None:
    """Writes a folder of kernels for each guard."""
    shutil.rmtree(MUTANTS, ignore_errors=True)
    for guard, (text, instead) in GUARDS.items():
        folder = MUTANTS / guard
        with tempfile.TemporaryDirectory() as sources:
            write_sources(Path(sources), text, instead)
            write_templates(Path(sources))
            subprocess.run([*FORMULAS, folder, "--operations", sources], cwd=ROOT, check=True)
    print(f"{len(GUARDS)} mutants in {MUTANTS}")


if __name__ == "__main__":
    main()
