"""Compiles kernels/*.cu to the PTX that the library carries.

Each kernel of kernels/*.cu gets a file of its own in kernels/ptx, so that a driver compiles no more
than a call needs.

    python kernels/build.py           write the .ptx files
    python kernels/build.py --check   fail if the .ptx files do not match the .cu files
    python kernels/build.py --usage [sm_XX...] [FOLDER...]
                                      compile the PTX, also of folders, by ptxas for these or all
                                      architectures, and print each kernel's registers and spills

Needs the packages of kernels/requirements.txt, and no GPU.
"""

import ctypes
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from sass import fast_path

KERNELS = Path(__file__).resolve().parent
SOURCES = sorted(KERNELS.glob("*.cu"))
IMAGES = KERNELS / "ptx"
HEADERS = sorted(KERNELS.glob("*.cuh"))
# A multiplication and an addition are not contracted into one rounding: the CPU rounds twice.
OPTIONS = ["--gpu-architecture=compute_60", "--std=c++17", "--fmad=false"]
ARCHITECTURES = ["sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]


def package_folder(name: str) -> Path:
    """The folder of one of NVIDIA's Python packages."""
    spec = find_spec(f"nvidia.{name}")
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"nvidia.{name} is missing: pip install -r kernels/requirements.txt")
    return Path(spec.submodule_search_locations[0])


class Compiler:
    """NVRTC, through its C interface."""

    def __init__(self) -> None:
        self.nvrtc = ctypes.CDLL(str(package_folder("cuda_nvrtc") / "lib" / "libnvrtc.so.12"))

    def ptx(self, source: Path) -> str:
        """The PTX of one source file; exits with the compiler's log if it has errors."""
        program = ctypes.c_void_p()
        texts = (ctypes.c_char_p * len(HEADERS))(*(header.read_bytes() for header in HEADERS))
        names = (ctypes.c_char_p * len(HEADERS))(*(header.name.encode() for header in HEADERS))
        self.nvrtc.nvrtcCreateProgram(
            ctypes.byref(program),
            source.read_bytes(),
            source.name.encode(),
            len(HEADERS),
            texts,
            names,
        )
        options = (ctypes.c_char_p * len(OPTIONS))(*(option.encode() for option in OPTIONS))
        if self.nvrtc.nvrtcCompileProgram(program, len(OPTIONS), options) != 0:
            sys.exit(f"{source.name} does not compile:\n{self.text(program, 'ProgramLog')}")
        return compact(without_unused(self.text(program, "PTX")))

    def text(self, program: ctypes.c_void_p, what: str) -> str:
        """Returns NVRTC's output for a program: its PTX or its log."""
        size = ctypes.c_size_t()
        getattr(self.nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self.nvrtc, f"nvrtcGet{what}")(program, buffer)
        return buffer.value.decode()


def without_unused(ptx: str) -> str:
    """PTX without unused global variables: NVRTC keeps all constants."""
    uses = Counter(re.findall(r"[\w$]+", ptx))

    def is_used(line: str) -> bool:
        variable = re.match(r"\.global .* ([a-zA-Z_$][\w$]*)(\[\d*\])?( =|;)", line)
        return variable is None or uses[variable[1]] > 1

    return "".join(line for line in ptx.splitlines(keepends=True) if is_used(line))


# Names that NVRTC makes inside a kernel, and their replacements.
SHORTER = {
    r"\$L__BB\d+_(\d+)": r"$\1",
    r"\w+_param_(\d+)": r"p\1",
    r"%rd(\d|<)": r"%q\1",
    r"%fd(\d|<)": r"%d\1",
}


def compact(ptx: str) -> str:
    """PTX without comments, indentation and long names: it is a fifth of the library."""
    lines = (" ".join(line.split("//")[0].split()) for line in ptx.splitlines())
    short = "".join(f"{line}\n" for line in lines if line)
    for name, shorter in SHORTER.items():
        short = re.sub(name, shorter, short)
    return short


ENTRY = ".visible .entry "


def images(compiler: Compiler) -> dict[Path, str]:
    """The PTX of every image, by its file."""
    found = {}
    for source in SOURCES:
        head, *kernels = compiler.ptx(source).split(ENTRY)
        for kernel in kernels:
            found[IMAGES / f"{kernel.split('(')[0]}.ptx"] = f"{head}{ENTRY}{kernel}"
    return found


def is_template(image: Path) -> bool:
    """Returns whether an image is a kernel without a formula (placeholders.cuh)."""
    return "\nELEMENTS " in image.read_text()


# With more registers a multiprocessor holds fewer than three blocks. The texts of expressions state
# the least number of blocks themselves.
MOST_REGISTERS = 80


# GPUs with few f64 units: functions of f32 avoid f64 there, except for hard arguments.
WITH_FEW_UNITS = ["sm_86", "sm_89", "sm_120"]


def usage(image: Path, architectures: list[str]) -> tuple[str, bool]:
    """Returns lines with an image's registers and spills, and whether they are within bounds.

    Kernels of large programs, which are in parts, need only compile. Those of fast functions may
    have no instruction of f64 on the fast path.
    """
    lines, clean, is_large = [], True, "\n.func " in image.read_text()
    ptxas = package_folder("cuda_nvcc") / "bin" / "ptxas"
    for architecture in architectures:
        with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
            command = [ptxas, "-v", f"-arch={architecture}", image, "-o", cubin.name]
            log = subprocess.run(command, capture_output=True, text=True, check=True).stderr
            if image.stem.startswith("fast_") and architecture in WITH_FEW_UNITS:
                disassembler = package_folder("cu13") / "bin" / "nvdisasm"
                path = fast_path(disassembler, Path(cubin.name))
                numbers = f"{path.instructions} instructions for a vector, {path.of_f64} of f64"
                lines.append(f"{image.stem:20} {architecture:7} {numbers}")
                clean &= path.of_f64 == 0
        for kernel in log.split("Compiling entry function '")[1:]:
            is_expression = kernel.startswith("expression'")
            name = image.stem if is_expression else kernel.split("'")[0]
            used = max(int(count) for count in re.findall(r"Used (\d+) registers", kernel))
            stores, loads = (
                sum(int(count) for count in re.findall(rf"(\d+) bytes spill {what}", kernel))
                for what in ("stores", "loads")
            )
            numbers = f"{used:>3} registers, {stores}+{loads} bytes spilled"
            lines.append(f"{name:20} {architecture:7} {numbers}")
            is_small = is_expression or used <= MOST_REGISTERS
            clean &= is_large or (stores == loads == 0 and is_small)
    return "\n".join(lines), clean


def print_usage(images: list[Path], architectures: list[str]) -> bool:
    """Prints what kernels use, some at once; returns whether all are within bounds."""
    all_clean = True
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for lines, clean in pool.map(partial(usage, architectures=architectures), images):
            print(lines)
            all_clean &= clean
    return all_clean


def main() -> None:
    """Does what the command line asks for."""
    mode = sys.argv[1] if len(sys.argv) > 1 else ""
    if mode == "--usage":
        whole = [image for image in IMAGES.glob("*.ptx") if not is_template(image)]
        named = [argument for argument in sys.argv[2:] if argument.startswith("sm_")]
        folders = [argument for argument in sys.argv[2:] if argument not in named]
        others = [file for folder in folders for file in Path(folder).rglob("*.ptx")]
        files = sorted([*whole, *others])
        why = f"a kernel spills, has more than {MOST_REGISTERS} registers, or needs f64"
        sys.exit(0 if print_usage(files, named or ARCHITECTURES) else why)
    made = images(Compiler())
    if mode == "--check":
        kept = {image: image.read_text() for image in [*IMAGES.glob("*"), *made] if image.exists()}
        wrong = sorted(path.name for path in {*kept, *made} if kept.get(path) != made.get(path))
        if wrong:
            sys.exit(f"not up to date with the .cu files: {', '.join(wrong)}: run 'make kernels'")
    else:
        IMAGES.mkdir(exist_ok=True)
        for image in set(IMAGES.glob("*")) - set(made):
            image.unlink()
        for image, ptx in made.items():
            image.write_text(ptx)
    print(f"{'checked' if mode == '--check' else 'wrote'} {len(made)} images")


if __name__ == "__main__":
    main()
