"""The table of scenarios: every kind of operation on every kind of array, and all other calls."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import product

import numpy as np
import scenarios_streams
from arrays import GUARD_BYTE, MIXED, UNIFORM, call_at
from bindings import Backend, Place, Status, last_run, lib, why_cpu
from operations import CLASSIC, Operation, named
from work import DEVICE_KINDS, ONE_OF_EACH, RIGHT, OnArrays, Work, outcome_of


@cache
def problem(operation: Operation, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs of that length, and the result."""
    a, b = operation.data(np.random.default_rng(n), n)
    return a, b, operation.oracle(a, b)


# The kinds of a, b and out where a device has some of them.
ON_DEVICE = [
    ("device", "device", "device"),
    ("device+5", "pageable+7", "device"),
    ("pageable", "device", "pinned+3"),
    ("pinned", "device+5", "pageable"),
    ("managed", "pageable", "device+5"),
]


@dataclass
class Call(OnArrays):
    """An operation on arrays; `in_place` names the input that is the output, or nothing."""

    operation: Operation
    kinds: tuple[str, ...]
    n: int
    in_place: str = ""

    def __str__(self) -> str:
        """Operation, length and kinds, for a scenario's name."""
        kinds = " ".join(self.kinds_of_all().values())
        return f"{self.operation} of {self.n} {kinds}" + (self.in_place and f" in {self.in_place}")

    def kinds_of_all(self) -> dict[str, str]:
        """The kind of each array that there is."""
        kinds = dict(zip(("a", "b", "out"), self.kinds))
        return {
            name: kinds[name] for name in self.operation.arrays[: -1 if self.in_place else None]
        }

    @property
    def written(self) -> str:
        """The array that holds the output."""
        return self.in_place or "out"

    def in_parent(self) -> None:
        """Inputs, result, and the arrays in pageable memory."""
        a, b, result = problem(self.operation, self.n)
        untouched = np.full(result.nbytes, GUARD_BYTE, np.uint8).view(result.dtype)
        values = {"a": a, "b": b, "out": untouched}
        kinds = self.kinds_of_all()
        self.lay_out(kinds, {name: values[name] for name in kinds}, {self.written: result})

    @property
    def always_answers(self) -> bool:
        """The cores do it where the GPU does not, if they reach the arrays."""
        return not self.is_on_device

    def attempt(self) -> str:
        """Calls it."""
        a, out = self.address("a"), self.address(self.written)
        b = self.address("b") if "b" in self.arrays else None
        return outcome_of(call_at(self.operation, a, b, out, self.n))

    def check(self, outcome: str, calls: list[str]) -> None:
        """Right bits or an untouched output, and nothing else written."""
        backend = last_run().backend
        assert (backend == Backend.NONE) == (outcome != RIGHT), f"{outcome} with {backend}"
        self.check_arrays(outcome, self.may_have_written(calls))

    def may_have_written(self, calls: list[str]) -> bool:
        """Returns whether a kernel that writes the output may have begun."""
        return self.operation.kind == "elementwise" and "cuLaunchKernel" in calls

    def is_half_done(self, calls: list[str]) -> bool:
        """Returns whether an input may be overwritten in part."""
        return bool(self.in_place) and self.may_have_written(calls)


class LongCall(Call):
    """An operation on arrays so large that only a few codes are tried."""

    codes = (2, 700)


class FamilyCall(Call):
    """An operation of the family: its path is that of the classic ones, so less of it is tried."""

    codes = ONE_OF_EACH
    turns = (1,)


class Init(Work):
    """`gpuvec_init`."""

    def __str__(self) -> str:
        """For a scenario's name."""
        return "gpuvec_init"

    def attempt(self) -> str:
        """Calls it."""
        return outcome_of(lib.gpuvec_init())


class WhyCpu(Work):
    """`gpuvec_why_cpu`."""

    always_answers = False

    def __str__(self) -> str:
        """For a scenario's name."""
        return "gpuvec_why_cpu"

    def attempt(self) -> str:
        """Calls it."""
        return Status.ERROR_NO_GPU.name if why_cpu() else RIGHT

    def text(self) -> str:
        """The answer: it leaves the last error alone."""
        return why_cpu()


@dataclass(frozen=True)
class Scenario:
    """Work with a placement, as a process's first call or, after `earlier` others, a later one."""

    work: Work
    place: Place
    earlier: int

    def __str__(self) -> str:
        """The name that --only finds."""
        return f"{self.work}, {self.place.name.lower()}, {'later' if self.earlier else 'first'}"


# Elements of arrays that a GPU maps, or that are staged for it in four chunks, or in five; and that
# it copies, or that placement auto stages for it in more chunks than there are slots.
FOUR, FIVE, LONG = 200_003, 270_003, 4_200_011
GPU_PLACES = (Place.GPU, Place.AUTO)
IN_PLACE = [(UNIFORM[0], "a"), (UNIFORM[2], "b"), (MIXED[0], "b")]

# One operation of the family for each shape: of one array and of two, with alpha and without, into
# the inputs' type and into another; and each size of element.
SHAPES = [
    named(f"gpuvec_{kernel}")
    for kernel in ("scale_f32", "axpy_f64", "mul_i64", "sum_f64", "sum_i32", "dot_i32")
]
FAMILY_KINDS = [
    ("pageable",) * 3,
    ("pinned+3",) * 3,
    ("device",) * 3,
    ("device+5", "pageable+7", "pinned"),
]


def works() -> Iterator[tuple[Work, Place]]:
    """All work, with the placements that each kind of it may run with."""
    for operation in CLASSIC:
        for kinds, in_place in [*[(kinds, "") for kinds in UNIFORM + MIXED], *IN_PLACE]:
            call = partial(Call, operation, kinds, in_place=in_place)
            yield from ((call(n), place) for n, place in host_calls(kinds))
        for kinds, in_place in [*[(kinds, "") for kinds in ON_DEVICE], (ON_DEVICE[0], "a")]:
            call = partial(Call, operation, kinds, in_place=in_place)
            yield from ((call(n), place) for n in (FOUR, FIVE) for place in GPU_PLACES)
        for kinds, in_place in product((UNIFORM[0], UNIFORM[2]), ("", "a")):
            yield LongCall(operation, kinds, LONG, in_place), Place.AUTO
    yield from family_works()
    for work in (Init(), WhyCpu()):
        yield from ((work, place) for place in GPU_PLACES)
    yield from scenarios_streams.works()


def host_calls(kinds: tuple[str, ...]) -> Iterator[tuple[int, Place]]:
    """Lengths and placements of calls on arrays of these kinds, none of them a device's."""
    yield from ((n, Place.GPU) for n in (FOUR, FIVE))
    # With placement auto, pageable arrays of these lengths stay on the CPU.
    goes_to_gpu = all(kind.startswith("pinned") for kind in kinds)
    yield from ((n, Place.AUTO) for n in ((FOUR, FIVE) if goes_to_gpu else (FOUR,)))


def family_works() -> Iterator[tuple[Work, Place]]:
    """One operation of each shape on a few kinds of arrays."""
    for operation in SHAPES:
        # The lengths are of elements of four bytes.
        size = np.dtype(operation.dtype).itemsize // 4
        for kinds in FAMILY_KINDS:
            is_on_device = any(kind in DEVICE_KINDS for kind in kinds)
            both = ((n, place) for n in (FOUR, FIVE) for place in GPU_PLACES)
            for n, place in both if is_on_device else host_calls(kinds):
                yield FamilyCall(operation, kinds, n // size), place
        if operation.may_be_in_place:
            yield FamilyCall(operation, UNIFORM[0], FIVE // size, "a"), Place.GPU


def scenarios() -> list[Scenario]:
    """The table, the longest scenarios first."""
    table = [Scenario(work, place, earlier) for work, place in works() for earlier in work.turns]
    return sorted(table, key=lambda scenario: -getattr(scenario.work, "n", 0))
