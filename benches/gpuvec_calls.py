"""gpuvec's side: calls from C, and from Python's ctypes, with each placement."""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Callable

from bindings import Backend, PathBit, Place, last_error, last_run, lib
from cases import Case
from compiled import Compiled
from timing import Contender, of_python

# Up to this length Python's ctypes is worth a row of its own, and so is a thread without a context.
MOST_BY_CTYPES = 10_000

# Other GPU libraries leave a context current in the thread that calls them; a program that uses
# gpuvec alone has none.
WITHOUT_CONTEXT = ThreadPoolExecutor(1)

NAMES = {
    ("add", "f32"): "vector_add",
    ("dot", "f32"): "dot_product",
    ("add", "f64"): "gpuvec_add_f64",
    ("dot", "f64"): "gpuvec_dot_f64",
}
FUNCTIONS = {case: getattr(lib, name) for case, name in NAMES.items()}


# Up to so many bytes in an array, or if it is pageable, placement all is placement cpu.
SHARED_BYTES = 16 << 20


def placements(case: Case, has_gpu: bool) -> list[Place]:
    """Those that reach such arrays here, and differ."""
    if case.kind == "device":
        return [Place.AUTO, Place.GPU]
    is_shared = has_gpu and case.kind == "pinned" and case.a.nbytes > SHARED_BYTES
    of_gpu, of_all = [Place.GPU] * has_gpu, [Place.ALL] * is_shared
    return [Place.AUTO, *of_gpu, Place.CPU, *of_all]


@dataclass
class Gpuvec:
    """gpuvec's function for a case, with a placement."""

    case: Case
    place: Place

    @property
    def name(self) -> str:
        """`gpuvec` and the placement."""
        return f"gpuvec {self.place.name.lower()}"

    def call(self) -> Callable[[], None]:
        """A call from Python."""
        function = FUNCTIONS[self.case.op, self.case.dtype]
        last = [] if self.case.dtype == "f32" else [None]
        pointers = map(ctypes.c_void_p, self.case.addresses())
        return partial(function, *pointers, self.case.n, *last)

    def once(self) -> None:
        """One call, which must succeed."""
        lib.gpuvec_set_placement(self.place)
        if self.call()() != 0:
            raise RuntimeError(last_error())

    def placed(self, batch: Callable[[int], float]) -> Callable[[int], float]:
        """The batch with the placement set before the clock starts."""

        def placed(calls: int) -> float:
            lib.gpuvec_set_placement(self.place)
            return batch(calls)

        return placed

    def from_c(self, compiled: Compiled) -> Contender:
        """Calls from C."""
        function = FUNCTIONS[self.case.op, self.case.dtype]
        last = () if self.case.dtype == "f32" else (None,)
        batch = compiled.batch(function, self.case.addresses(), self.case.n, *last)
        return Contender(self.name, self.placed(batch))

    def without_context(self, compiled: Compiled) -> Contender:
        """Calls from C in a thread that has no context of CUDA's."""
        name, batch = self.from_c(compiled)
        there = lambda calls: WITHOUT_CONTEXT.submit(batch, calls).result()  # noqa: E731
        return Contender(f"{name}, no context", there)

    def from_python(self) -> Contender:
        """Calls through ctypes."""
        return Contender(f"{self.name}, ctypes", self.placed(of_python(self.call())))


def ran() -> dict:
    """Where the last call ran, and how."""
    run = last_run()
    return {
        "backend": Backend(run.backend).name.lower(),
        "path": [bit.name.lower() for bit in PathBit if run.path & bit],
        "devices": run.devices,
        "threads": run.threads,
        "chunks": run.chunks,
        "bytes_staged": run.bytes_staged,
    }
