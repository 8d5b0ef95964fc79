"""Compiles the kernels of exact sums without one of their guards: tests must fail then.

    python tools/kernel_mutants.py            writes target/gpu/mutants, on any machine
    tools/on_gpu.sh mutants                   runs the kernels' tests on each, on a GPU machine

Needs the packages of kernels/requirements.txt.
"""

import importlib.util
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KERNELS, MUTANTS = ROOT / "kernels", ROOT / "target" / "gpu" / "mutants"

# A text of kernels/exact.cuh, and its replacement. The check for infinities and NaN is not
# included: it only skips a batch that the witness would refuse.
GUARDS = {
    "limit": ("top <= unit + REACH", "unit != -NOT_FINITE"),
    "witness": ("left << 1 != 0", "false"),
    "floor": ("134, 3, 4, -968", "134, 3, 4, -1073"),
    "zero": (" | vanished;", ";"),
    "carry": ("            columns.normalise();\n", ""),
}


def compiler(headers: Path):
    """Returns kernels/build.py, with the headers of a folder."""
    spec = importlib.util.spec_from_file_location("build", KERNELS / "build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    build.HEADERS = sorted(headers.glob("*.cuh"))
    return build


def main() -> None:
    """Writes a folder of images for each guard."""
    shutil.rmtree(MUTANTS, ignore_errors=True)
    for guard, (text, instead) in GUARDS.items():
        folder = MUTANTS / guard
        folder.mkdir(parents=True)
        for header in KERNELS.glob("*.cuh"):
            source = header.read_text()
            if header.name == "exact.cuh":
                if source.count(text) != 1:
                    sys.exit(f"kernels/exact.cuh does not have '{text}' once")
                source = source.replace(text, instead)
            (folder / header.name).write_text(source)
        build = compiler(folder)
        head, *kernels = build.Compiler().ptx(KERNELS / "reduce.cu").split(build.ENTRY)
        for kernel in kernels:
            (folder / f"{kernel.split('(')[0]}.ptx").write_text(f"{head}{build.ENTRY}{kernel}")
    print(f"{len(GUARDS)} mutants in {MUTANTS}")


if __name__ == "__main__":
    main()
