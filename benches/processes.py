"""New processes: their first calls, and the driver's time to compile formulas."""

import ctypes
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing
from statistics import median

from calls import Library, library_path, suffix_of
from cases import FORMULAS, TYPE_NUMBERS, Arrays, Case, Data, formula
from device import device_if_any
from harness import OtherProcess, Row, batch_of, spread_of

# The first calls, as the page describes them (benches/page.py).
FIRST = ("load", "bare", "init", "add")


def first_call(what: str) -> float:
    """Returns the milliseconds of a first call in this process."""
    floats = ctypes.c_float * 1000
    arrays = [floats() for _ in range(3)]
    if what in FORMULAS:
        return first_call_of(what)
    start = time.perf_counter()
    if what == "bare":
        driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        code = driver.cuInit(0) or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    else:
        gpuvec, code = ctypes.CDLL(library_path()), 0
        if what == "init":
            code = gpuvec.gpuvec_init()
        if what == "add":
            code = gpuvec.gpuvec_set_placement(1)
            code = code or gpuvec.gpuvec_add_f32(*arrays, ctypes.c_size_t(1000), None)
    milliseconds = 1e3 * (time.perf_counter() - start)
    if code != 0:
        raise RuntimeError(f"{what} returned {code}")
    return milliseconds


def first_call_of(name: str) -> float:
    """Returns the milliseconds of a formula's first call on the GPU, with the driver open."""
    library, arrays = Library(library_path()), Arrays("f32", "pageable", 1000, None)
    library.from_c(Data(Case("a * b", "f32", "pageable", 1000), arrays), "gpu").batch(1)
    return 1e3 * library.from_c(Data(Case(name, "f32", "pageable", 1000), arrays), "gpu").batch(1)


def compile_all(texts: list[str]) -> list[float]:
    """Returns the milliseconds that the driver takes for each formula in this process."""
    library, found = Library(library_path()), []
    library.check(library.functions.gpuvec_init())
    library.set_placement("gpu")
    for text in texts:
        for number in TYPE_NUMBERS.values():
            handle = library.expression(text, list("abcd"), number)
            prepare = library.functions.gpuvec_expr_prepare
            found.append(1e3 * batch_of(lambda: library.check(prepare(handle, 0)))(1))  # noqa: B023
    return found


def answer(question: object) -> object:
    """Measures in this process, for another one."""
    return first_call(question) if isinstance(question, str) else compile_all(question)


def in_new_process(question: object, cache: str, library: str = "") -> object:
    """Measures in a new process, whose driver caches compiled kernels in `cache`, or nowhere."""
    environment = {"CUDA_CACHE_PATH": cache, "CUDA_CACHE_DISABLE": "0" if cache else "1"}
    path = library or library_path()
    with closing(OtherProcess("processes", **environment, GPUVEC_LIB=path)) as process:
        return process.ask(question)


def row_of(what: str, us: dict[str, list[float]]) -> Row:
    """Makes a row of figures in microseconds."""
    medians = {name: median(figures) for name, figures in us.items()}
    return {"what": what, "us": medians, "spread": {name: spread_of(us[name]) for name in us}}


def first(given: Namespace) -> Iterator[Row]:
    """Times first calls, with an empty and a warm driver cache, and the compilation of texts.

    The first call of a formula on the GPU is measured when the driver is open.
    """
    has_gpu = device_if_any() is not None
    todo = [*FIRST, *given.calls] if has_gpu else ["load", "init"]
    with tempfile.TemporaryDirectory() as warm:
        for what in todo:
            found: dict[str, list[float]] = {}
            for _ in range(given.rounds + has_gpu):
                with tempfile.TemporaryDirectory() as empty:
                    for name, cache in (("empty cache", empty), ("warm cache", warm)):
                        us = 1e3 * float(str(in_new_process(what, cache)))
                        found.setdefault(name, []).append(us)
            # The first of these processes with a GPU filled the cache.
            found["warm cache"] = found["warm cache"][has_gpu:]
            yield row_of(what, found)
    library, text = Library(library_path()), FORMULAS["24 ops"].text
    compile_it = lambda at: library.expression(f"{text} + {at}", list("abcd"), 9)  # noqa: E731
    figures = [1e6 * batch_of(lambda at=at: compile_it(at))(1) for at in range(500)]
    yield row_of("a text of 24 operations, compiled", {"library": figures})


def compile_times(given: Namespace) -> Iterator[Row]:
    """Times the driver's compilation of formulas, for each library in turn; takes least times."""
    libraries = {"gpuvec": library_path()}
    libraries |= {f"gpuvec{suffix_of(path)}": path for path in given.against}
    texts = [formula(call).text for call in given.calls]
    runs = [
        {name: in_new_process(texts, "", path) for name, path in libraries.items()}
        for _ in range(given.rounds)
    ]
    for number, (text, dtype) in enumerate(
        (text, dtype) for text in texts for dtype in TYPE_NUMBERS
    ):
        us = {name: 1e3 * min(run[name][number] for run in runs) for name in libraries}
        yield {"what": f"{text} of {dtype}", "us": us}
