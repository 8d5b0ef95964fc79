"""The table of scenarios: every operation on every kind of array, and calls about memory."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
from arrays import GUARD_BYTE, MIXED, UNIFORM, Guarded, assert_same_bits, filled
from bindings import Backend, Place, Status, last_error, last_run, lib, why_cpu
from operations import OPERATIONS, Operation
from stand_in_driver import CODES

# Outcomes beside the names of statuses.
RIGHT = "right"
NULL = "NULL"


class Work:
    """What a scenario does. The parent makes it; each child uses its own copy."""

    # Whether placement auto must succeed whatever the driver does.
    always_answers = True
    # The codes that are tried.
    codes = tuple(CODES)

    def in_parent(self) -> None:
        """Makes what all children share."""

    def in_child(self) -> None:
        """Makes what needs the driver."""

    def attempt(self) -> str:
        """Does it; the outcome."""
        raise NotImplementedError

    def text(self) -> str:
        """What the library says of an attempt that failed."""
        return last_error()

    def check(self, outcome: str, calls: list[str]) -> None:
        """Fails unless the outcome is true, for an attempt that made these calls."""

    def is_half_done(self, calls: list[str]) -> bool:
        """Whether an attempt that failed after these calls may have destroyed its input."""
        return False

    def reset(self) -> None:
        """Makes everything as it was before the attempt."""


def outcome_of(status: int) -> str:
    """The outcome of a function that returns a status."""
    return RIGHT if status == Status.OK else Status(status).name


@cache
def problem(operation: Operation, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs of that length, and the result."""
    a, b = operation.data(np.random.default_rng(n), n)
    return a, b, operation.oracle(a, b)


def assert_holds(array: np.ndarray, values: np.ndarray, what: str) -> None:
    """Fails unless the array has the values' bits."""
    if not np.array_equal(array.view(np.uint32), values.view(np.uint32)):
        # Slower, but it says where.
        try:
            assert_same_bits(array, values)
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from None


@dataclass
class Call(Work):
    """An operation on arrays; `in_place` names the input that is the output, or nothing."""

    operation: Operation
    kinds: tuple[str, str, str]
    n: int
    in_place: str = ""
    arrays: dict[str, Guarded] = field(default_factory=dict)

    def __str__(self) -> str:
        """Operation, length and kinds, for a scenario's name."""
        kinds = " ".join(self.kinds[:2] if self.in_place else self.kinds)
        return f"{self.operation} of {self.n} {kinds}" + (self.in_place and f" in {self.in_place}")

    @property
    def written(self) -> str:
        """The array that holds the output."""
        return self.in_place or "out"

    @property
    def out(self) -> np.ndarray:
        """The output."""
        return self.arrays[self.written].array[: self.operation.outputs(self.n)]

    def in_parent(self) -> None:
        """Inputs, result, and the arrays in pageable memory."""
        a, b, result = problem(self.operation, self.n)
        untouched = np.full(result.size * result.itemsize, GUARD_BYTE, np.uint8)
        self.before = {"a": a, "b": b, "out": untouched.view(result.dtype)}
        if self.in_place:
            del self.before["out"]
        self.after = dict(self.before)
        self.after[self.written] = self.before[self.written].copy()
        self.after[self.written][: result.size] = result
        self.make("pageable")

    def in_child(self) -> None:
        """The arrays in pinned memory."""
        self.make("pinned")

    def make(self, memory: str) -> None:
        """The arrays whose kind begins so."""
        for (name, values), kind in zip(self.before.items(), self.kinds):
            if kind.startswith(memory):
                self.arrays[name] = filled(kind, values)

    def attempt(self) -> str:
        """Calls it."""
        function = getattr(lib, self.operation.name)
        a, b = (self.arrays[name].address for name in "ab")
        return outcome_of(function(a, b, self.out.ctypes.data, self.n))

    def check(self, outcome: str, calls: list[str]) -> None:
        """Right bits or an untouched output, and nothing else written."""
        backend = last_run().backend
        assert (backend == Backend.NONE) == (outcome != RIGHT), f"{outcome} with {backend}"
        known = dict(self.after if outcome == RIGHT else self.before)
        if outcome != RIGHT and self.may_have_written(calls):
            del known[self.written]
        for name, values in known.items():
            assert_holds(self.arrays[name].array, values, f"{name} after {outcome}")
        for name, array in self.arrays.items():
            assert array.guards_are_intact(), f"something around {name} was written"

    def may_have_written(self, calls: list[str]) -> bool:
        """Whether a kernel that writes the output may have begun."""
        return self.operation.kind == "elementwise" and "cuLaunchKernel" in calls

    def is_half_done(self, calls: list[str]) -> bool:
        """Whether an input may be overwritten in part."""
        return bool(self.in_place) and self.may_have_written(calls)

    def reset(self) -> None:
        """Undoes what the call wrote."""
        self.out[:] = self.before[self.written][: self.out.size]


class StagedCall(Call):
    """An operation on arrays so large that only a few codes are tried: one of each kind."""

    codes = (2, 700)


class PinnedMemory(Work):
    """Page-locked memory: had, written and given back."""

    always_answers = False
    BYTES = 10_000

    def __init__(self):
        self.held: list[int] = []

    def __str__(self) -> str:
        """For a scenario's name."""
        return "pinned_alloc and pinned_free"

    def attempt(self) -> str:
        """As the class says; what could not be given back last time is given back first."""
        address = lib.pinned_alloc(self.BYTES)
        if not address:
            return NULL
        self.held.append(address)
        ctypes.memset(address, GUARD_BYTE, self.BYTES)
        while self.held:
            status = lib.pinned_free(self.held[0])
            if status != Status.OK:
                return outcome_of(status)
            self.held.pop(0)
        return RIGHT

    def check(self, outcome: str, calls: list[str]) -> None:
        """Memory that could not be given back is still there."""
        for address in self.held:
            ctypes.memset(address, GUARD_BYTE, self.BYTES)


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


# Elements of arrays that a GPU maps, in two chunks if they are staged; that it copies, in three;
# and that placement auto stages for it, in more chunks than it has lanes.
MAPPED, COPIED, STAGED = 200_003, 270_003, 4_200_011
IN_PLACE = [(UNIFORM[0], "a"), (UNIFORM[2], "b"), (MIXED[0], "b")]


def works() -> Iterator[tuple[Work, Place]]:
    """Everything that is done, with the placements in which it has something to do."""
    for operation in OPERATIONS:
        for kinds, in_place in [*[(kinds, "") for kinds in UNIFORM + MIXED], *IN_PLACE]:
            call = partial(Call, operation, kinds, in_place=in_place)
            yield from ((call(n), Place.GPU) for n in (MAPPED, COPIED))
            # With placement auto, pageable arrays of these lengths stay on the CPU.
            goes_to_gpu = all(kind.startswith("pinned") for kind in kinds)
            sizes = (MAPPED, COPIED) if goes_to_gpu else (MAPPED,)
            yield from ((call(n), Place.AUTO) for n in sizes)
        for in_place in ("", "a"):
            yield StagedCall(operation, UNIFORM[0], STAGED, in_place), Place.AUTO
    for work in (PinnedMemory(), Init(), WhyCpu()):
        yield from ((work, place) for place in (Place.AUTO, Place.GPU))


def scenarios() -> list[Scenario]:
    """The table, with what takes longest first."""
    table = [Scenario(work, place, earlier) for work, place in works() for earlier in (0, 1)]
    return sorted(table, key=lambda scenario: -getattr(scenario.work, "n", 0))
