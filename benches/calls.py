"""gpuvec as a contender: calls from C, from ctypes and by the Python package, of any build.

A library is loaded through ctypes with the few functions that the calls need, so that builds of
different versions can be compared in one process. The Python package of another build runs in a
process of its own, and takes turns from there.
"""

import ctypes
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from functools import cache, partial
from pathlib import Path
from typing import Any, Optional

from cases import DTYPES, PLACEMENTS, TYPE_NUMBERS, Arrays, Case, Data, address
from device import device_if_any
from harness import ROOT, Batch, Call, Contender, OtherProcess, batch_of

FLAGS = ["-std=c99", "-O3", "-march=native", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
# Up to this length, calls by ctypes and from a thread without a context are contenders, too.
MOST_BY_CTYPES = 10_000
# Other GPU libraries leave a context current in the calling thread; a program that uses gpuvec
# alone has none.
WITHOUT_CONTEXT = ThreadPoolExecutor(1)
# From this length on, one core alone is not measured.
MOST_ON_CORE = 1_000_000
# The names of another build's contenders end with this and the name of its file.
AGAINST = ", against "


def library_path() -> str:
    """Returns the path of the library: GPUVEC_LIB, or the release build."""
    return str(Path(os.environ.get("GPUVEC_LIB") or ROOT / "target/release/libgpuvec.so").resolve())


def suffix_of(library: str) -> str:
    """Returns the end of the names of another build's contenders."""
    return f"{AGAINST}{Path(library).stem}"


def compiled(source: Path, *flags: str) -> ctypes.CDLL:
    """Compiles and loads a file of C."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "built.so"
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, *FLAGS, *flags, source, "-o", built, "-lm", "-ldl"], check=True)
        return ctypes.CDLL(str(built))


@cache
class Loops:
    """The C functions of calls.c: loops of calls, and the calls that they are compared with."""

    def __init__(self) -> None:
        self.built = compiled(ROOT / "benches/calls.c")
        arrays = [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p]
        self.built.time_calls.argtypes = [c_void_p, *arrays, c_int64]
        self.built.time_reduction.argtypes = [c_void_p, c_void_p, c_void_p, c_size_t, c_int64]
        self.built.time_calls.restype = self.built.time_reduction.restype = c_double
        self.built.naive_open.argtypes = [c_char_p, c_char_p, c_size_t, c_int]
        self.built.naive_open.restype = c_void_p

    def calls(self, function: Any, *arguments: Any) -> Batch:
        """Makes a loop of calls of a function, on two arrays or one, an output and `n`."""
        loop = self.built.time_reduction if len(arguments) == 3 else self.built.time_calls
        call = ctypes.cast(function, c_void_p)

        def batch(calls: int) -> float:
            seconds = loop(call, *arguments, calls)
            if seconds < 0:
                raise RuntimeError("a call failed")
            return float(seconds)

        return batch

    def open(self, image: bytes, kernel: str, element: int, reduces: bool) -> int:
        """Loads a kernel for the naive function."""
        opened = self.built.naive_open(image, kernel.encode(), element, reduces)
        if not opened:
            raise RuntimeError(f"the driver does not load the kernel {kernel}")
        return opened


class Run(ctypes.Structure):
    """The first fields of `gpuvec_run`."""

    _fields_ = [
        ("backend", c_int32),
        ("path", ctypes.c_uint32),
        ("devices", c_uint64),
        ("threads", c_uint64),
    ]

    def where(self) -> str:
        """Returns the processors that the call ran on."""
        if self.backend == 1:
            return f"cpu {self.threads}"
        return "gpu and cores" if self.path & 2 else "gpu"


class ArrayArgument(ctypes.Structure):
    """`gpuvec_array`."""

    _fields_ = [("data", c_void_p), ("strides", c_void_p)]


class Library:
    """A build of gpuvec, loaded in this process; `suffix` ends the names of its contenders."""

    def __init__(self, path: str, suffix: str = "") -> None:
        self.path, self.suffix = path, suffix
        self.functions = functions = ctypes.CDLL(path)
        functions.gpuvec_last_error.restype = functions.gpuvec_version.restype = c_char_p
        functions.gpuvec_expr_compile.argtypes = [c_char_p, c_void_p, c_void_p, c_size_t, c_void_p]
        places = [c_void_p] * 3
        functions.gpuvec_expr_run_nd.argtypes = [c_void_p, c_int32, *places, c_uint64, c_void_p]
        compile_by = [c_char_p, *functions.gpuvec_expr_compile.argtypes]
        run_by = [c_void_p, c_int32, *places, c_uint64, c_size_t, c_uint64, c_void_p]
        for name, types in (("compile_by", compile_by), ("run_by", run_by)):
            # Builds without reductions by key are measured, too.
            if (function := getattr(functions, f"gpuvec_expr_{name}", None)) is not None:
                function.argtypes = types
        functions.gpuvec_expr_prepare.argtypes = [c_void_p, c_int32]
        functions.gpuvec_last_run.argtypes = [c_void_p, c_size_t]
        functions.gpuvec_stream_create.restype = c_void_p
        functions.gpuvec_stream_synchronize.argtypes = [c_void_p]
        functions.gpuvec_copy.argtypes = [c_void_p, c_void_p, c_size_t, c_void_p]
        self.handles: dict[tuple, c_void_p] = {}

    def check(self, status: int) -> None:
        """Raises the last error if there is one."""
        if status:
            raise RuntimeError(self.functions.gpuvec_last_error().decode())

    def set_placement(self, placement: str) -> None:
        """Sets the placement of later calls."""
        self.check(self.functions.gpuvec_set_placement(PLACEMENTS.index(placement)))

    def last_run(self) -> Run:
        """Returns how the last call ran."""
        run = Run()
        self.check(self.functions.gpuvec_last_run(ctypes.byref(run), ctypes.sizeof(run)))
        return run

    @cache  # noqa: B019
    def stream(self) -> int:
        """Returns a stream of the first GPU."""
        return self.functions.gpuvec_stream_create(0)

    def wait(self) -> None:
        """Waits for the stream."""
        self.check(self.functions.gpuvec_stream_synchronize(self.stream()))

    def expression(self, text: str, inputs: list[str], type_number: int) -> c_void_p:
        """Compiles an expression, for as long as the process lives."""
        key = (text, *inputs, type_number)
        if key not in self.handles:
            count, handle = len(inputs), c_void_p()
            names = (c_char_p * count)(*(name.encode() for name in inputs))
            types = (c_int32 * count)(*[type_number] * count)
            compile_it = self.functions.gpuvec_expr_compile
            self.check(compile_it(text.encode(), names, types, count, ctypes.byref(handle)))
            self.handles[key] = handle
        return self.handles[key]

    def arguments(self, data: Data, stream: Optional[int] = None) -> tuple:
        """Returns the function of a case and its arguments."""
        formula, n, dtype = data.formula, data.case.n, data.case.dtype
        inputs, out = [*map(address, data.inputs.values())], address(data.out)
        if formula.function() and (stream is None or len(inputs) == 2):
            function = getattr(self.functions, f"gpuvec_{formula.function()}_{dtype}")
            return (function, *inputs, out, n, *([stream] if len(inputs) == 2 else []))
        expression = self.expression(formula.text, formula.inputs, TYPE_NUMBERS[dtype])
        pointers = (c_void_p * len(inputs))(*inputs)
        return self.functions.gpuvec_expr_run, expression, pointers, out, n, stream

    def placed(self, placement: str, run: Batch) -> Batch:
        """Returns a batch of calls with a placement; one that fails raises the library's error."""

        def batch(calls: int) -> float:
            self.set_placement(placement)
            try:
                return run(calls)
            except RuntimeError as error:
                message = self.functions.gpuvec_last_error().decode()
                raise RuntimeError(f"placement {placement}: {message}") from error

        return batch

    def from_c(self, data: Data, placement: str) -> Contender:
        """Returns calls from C."""
        batch = self.placed(placement, Loops().calls(*self.arguments(data)))
        return Contender(f"gpuvec {placement}{self.suffix}", batch)

    def without_context(self, data: Data, placement: str) -> Contender:
        """Returns calls from C in a thread without a CUDA context."""
        batch = self.from_c(data, placement).batch
        there = lambda calls: WITHOUT_CONTEXT.submit(batch, calls).result()  # noqa: E731
        return Contender(f"gpuvec {placement}, no context{self.suffix}", there)

    def from_ctypes(self, data: Data, placement: str) -> Contender:
        """Returns calls through ctypes."""
        function, *arguments = self.arguments(data)
        *pointers, n = arguments[:4]
        pointers = [c_void_p(one) if isinstance(one, int) else one for one in pointers]
        batch = self.placed(placement, batch_of(partial(function, *pointers, c_size_t(n), None)))
        return Contender(f"gpuvec {placement}, ctypes{self.suffix}", batch)

    def queued(self, data: Data) -> Contender:
        """Returns calls from C that are queued on a stream."""
        arguments = self.arguments(data, self.stream())
        self.set_placement("gpu")
        if arguments[0] is self.functions.gpuvec_expr_run:
            self.check(self.functions.gpuvec_expr_prepare(arguments[1], 0))
        loop = Loops().calls(*arguments)

        def run(calls: int) -> float:
            return batch_of(partial(loop, calls), self.wait)(1)

        return Contender(f"gpuvec{self.suffix}", self.placed("gpu", run))

    def nd_call(
        self, text: str, arrays: dict, shape: tuple, out: tuple, reduced: int, stream: Any
    ) -> Call:
        """Returns a call on arrays of any strides, each with its address and strides."""
        expression = self.expression(text, list(arrays), TYPE_NUMBERS["f32"])
        kept = [(c_int64 * len(strides))(*strides) for _, strides in (*arrays.values(), out)]
        addresses = [place for place, _ in (*arrays.values(), out)]
        pairs = zip(addresses, map(ctypes.addressof, kept))
        given = (ArrayArgument * len(kept))(*pairs)
        to = ctypes.addressof(given) + len(arrays) * ctypes.sizeof(ArrayArgument)
        axes = (c_int64 * len(shape))(*shape)
        run = self.functions.gpuvec_expr_run_nd

        def call(_kept: object = kept) -> None:
            self.check(run(expression, len(shape), axes, given, to, reduced, stream))

        return call

    def by_key_call(
        self, text: str, types: list[int], n: int, groups: int, addresses: list[int]
    ) -> Call:
        """Returns a call on contiguous elements, x, and their keys, k."""
        handle, places = c_void_p(), (ArrayArgument * 3)(*((place, None) for place in addresses))
        names = (c_char_p * 2)(b"x", b"k")
        inputs = names, (c_int32 * 2)(*types), 2
        compile_it = self.functions.gpuvec_expr_compile_by
        self.check(compile_it(text.encode(), b"k", *inputs, ctypes.byref(handle)))
        shape = (c_int64 * 1)(n)
        to = ctypes.addressof(places) + 2 * ctypes.sizeof(ArrayArgument)
        run = self.functions.gpuvec_expr_run_by
        return lambda: self.check(run(handle, 1, shape, places, to, 1, groups, 0, None))


def package_folder(library: str) -> str:
    """Returns the folder of the package that belongs to a build, or of this one's."""
    of_build = Path(library).parents[2] / "python"
    return str(of_build if (of_build / "gpuvec").is_dir() else ROOT / "python")


def package() -> Any:
    """Imports the Python package."""
    folder = package_folder(library_path())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module("gpuvec")


def package_call(data: Data) -> Call:
    """Returns a call of the package, with `out=`."""
    gpuvec, formula, out = package(), data.formula, data.out
    if formula.is_reduction():
        is_host = data.case.kind != "device"
        out = out[:1].reshape(()) if is_host else out.first(1)
    if formula.function():
        return partial(getattr(gpuvec, formula.function()), *data.inputs.values(), out=out)
    types = dict.fromkeys(data.inputs, DTYPES[data.case.dtype])
    expression = gpuvec.Expression(formula.text, types)
    return lambda: expression(data.inputs, out=out)


def from_package(data: Data, placement: str) -> Contender:
    """Returns calls of the package."""
    batch = Library(library_path()).placed(placement, batch_of(package_call(data)))
    return Contender("gpuvec" if placement == "auto" else f"gpuvec {placement}, package", batch)


class Callers:
    """The contenders of gpuvec for a case: by caller, placement and build."""

    def __init__(self, callers: list[str], placements: list[str], against: list[str], most: int):
        self.callers, self.placements, self.most = callers, placements, most
        self.libraries = [Library(library_path())]
        self.packages: dict[str, OtherProcess] = {}
        self.core: Optional[OtherProcess] = None
        for path in against:
            self.libraries.append(Library(path, suffix_of(path)))
            if "package" in callers:
                self.packages[suffix_of(path)] = OtherProcess("calls", GPUVEC_LIB=path)
        if "core" in callers:
            self.core = OtherProcess("calls", GPUVEC_NUM_THREADS="1")

    def of(self, data: Data) -> Iterator[Contender]:
        """Makes the contenders of a case, gpuvec from C first."""
        case = data.case
        placements = [
            one for one in self.placements if case.kind != "device" or one in ("auto", "gpu")
        ]
        makers = {"c": "from_c", "ctypes": "from_ctypes", "no context": "without_context"}
        for caller, maker in makers.items():
            if caller in self.callers and (caller == "c" or case.n <= MOST_BY_CTYPES):
                for placement in placements:
                    for library in self.libraries:
                        yield getattr(library, maker)(data, placement)
        if "queued" in self.callers and case.kind == "device":
            for library in self.libraries:
                yield library.queued(data)
        if "package" in self.callers:
            placement = "auto" if "auto" in placements else placements[0]
            now = from_package(data, placement)
            yield now
            for suffix, process in self.packages.items() if case.kind != "device" else ():
                name = f"{now.name}{suffix}"
                yield process.contender(name, self.most, "package", case, placement)
        if self.core and case.kind != "device" and case.n <= MOST_ON_CORE:
            question = (self.most, "c", case._replace(kind="pageable"), "cpu")
            yield self.core.contender("gpuvec core", *question)

    def close(self) -> None:
        """Ends the other processes."""
        for process in (*self.packages.values(), *filter(None, [self.core])):
            process.close()


@cache
def served_arrays(dtype: str, kind: str, n: int) -> Arrays:
    """Returns the arrays of a process that makes calls for another."""
    return Arrays(dtype, kind, n, device_if_any() if kind == "pinned" else None)


@cache
def served(most: int, caller: str, case: Case, placement: str) -> Batch:
    """Returns the calls of a case."""
    data = Data(case, served_arrays(case.dtype, case.kind, most))
    if caller == "package":
        return from_package(data, placement).batch
    return Library(library_path()).from_c(data, placement).batch


def answer(most: int, caller: str, case: list, placement: str, calls: int) -> float:
    """Makes calls for another process, and returns the seconds."""
    return served(most, caller, Case(*case), placement)(calls)


def version() -> str:
    """Returns the version of the library."""
    return Library(library_path()).functions.gpuvec_version().decode()
