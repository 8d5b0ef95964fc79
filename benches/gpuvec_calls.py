"""gpuvec as a contender: calls from C, from ctypes and by the Python package."""

import ctypes
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Callable

from bindings import Backend, PathBit, Place, last_error, last_run, lib
from cases import Case
from compiled import Compiled
from device import ROOT
from timing import Contender, of_python

sys.path.insert(0, str(ROOT / "python"))
import gpuvec

# Up to this length, calls by ctypes and from a thread without a context have rows of their own.
MOST_BY_CTYPES = 10_000

# Other GPU libraries leave a context current in the calling thread; a program that uses gpuvec
# alone has none.
WITHOUT_CONTEXT = ThreadPoolExecutor(1)

NAMES = {
    ("add", "f32"): "vector_add",
    ("dot", "f32"): "dot_product",
    ("add", "f64"): "gpuvec_add_f64",
    ("dot", "f64"): "gpuvec_dot_f64",
}
FUNCTIONS = {case: getattr(lib, name) for case, name in NAMES.items()}


# Placement all equals placement cpu for arrays up to this size, and for pageable arrays.
SHARED_BYTES = 16 << 20


def placements(case: Case, has_gpu: bool) -> list[Place]:
    """Returns the placements that support the case's arrays and differ from each other."""
    if case.kind == "device":
        return [Place.AUTO, Place.GPU]
    is_shared = has_gpu and case.kind == "pinned" and case.a.nbytes > SHARED_BYTES
    of_gpu, of_all = [Place.GPU] * has_gpu, [Place.ALL] * is_shared
    return [Place.AUTO, *of_gpu, Place.CPU, *of_all]


def placed(place: Place, batch: Callable[[int], float]) -> Callable[[int], float]:
    """Sets the placement before the batch starts its clock."""

    def placed(calls: int) -> float:
        lib.gpuvec_set_placement(place)
        return batch(calls)

    return placed


@dataclass
class Gpuvec:
    """gpuvec's function for a case, with a placement."""

    case: Case
    place: Place

    @property
    def name(self) -> str:
        """The contender's name: `gpuvec` and the placement."""
        return f"gpuvec {self.place.name.lower()}"

    def call(self) -> Callable[[], None]:
        """Returns a call from Python."""
        function = FUNCTIONS[self.case.op, self.case.dtype]
        last = [] if self.case.dtype == "f32" else [None]
        pointers = map(ctypes.c_void_p, self.case.addresses())
        return partial(function, *pointers, self.case.n, *last)

    def once(self) -> None:
        """Makes one call, which must succeed."""
        lib.gpuvec_set_placement(self.place)
        if self.call()() != 0:
            raise RuntimeError(last_error())

    def from_c(self, compiled: Compiled) -> Contender:
        """Returns calls from C."""
        function = FUNCTIONS[self.case.op, self.case.dtype]
        last = () if self.case.dtype == "f32" else (None,)
        batch = compiled.batch(function, self.case.addresses(), self.case.n, *last)
        return Contender(self.name, placed(self.place, batch))

    def without_context(self, compiled: Compiled) -> Contender:
        """Returns calls from C in a thread without a CUDA context."""
        name, batch = self.from_c(compiled)
        there = lambda calls: WITHOUT_CONTEXT.submit(batch, calls).result()  # noqa: E731
        return Contender(f"{name}, no context", there)

    def from_python(self) -> Contender:
        """Returns calls through ctypes."""
        return Contender(f"{self.name}, ctypes", placed(self.place, of_python(self.call())))


def from_package(case: Case) -> Contender:
    """Returns calls of the Python package's functions, with placement auto."""
    function = {"add": gpuvec.add, "dot": gpuvec.dot}[case.op]
    out = case.out if case.op == "add" else case.result()
    call = partial(function, case.a, case.b, out=out)
    return Contender("gpuvec auto, Python", placed(Place.AUTO, of_python(call)))


def ran() -> dict:
    """Returns where and how the last call ran."""
    run = last_run()
    return {
        "backend": Backend(run.backend).name.lower(),
        "path": [bit.name.lower() for bit in PathBit if run.path & bit],
        "devices": run.devices,
        "threads": run.threads,
        "chunks": run.chunks,
        "bytes_staged": run.bytes_staged,
    }
