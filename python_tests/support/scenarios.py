"""The table of scenarios: operations of every kind on arrays of every kind, and all other calls."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import product

import numpy as np
import scenarios_streams
from accumulators import Sums
from arrays import GUARD_BYTE, MIXED, UNIFORM, call_at
from bindings import Backend, Place, Status, held_memory, last_error, last_run, lib, why_cpu
from compiled_by_key import ByKey
from corpus import KINDS
from fake_driver import FakeDriver
from formulas import Compiled, Formula
from header import enumeration
from operations import CLASSIC, Operation, named
from work import DEVICE_KINDS, ONE_OF_EACH, RIGHT, OnArrays, Work, assert_holds, outcome_of


@cache
def problem(operation: Operation, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns inputs of that length, and the result."""
    a, b = operation.data(np.random.default_rng(n), n)
    return a, b, operation.oracle(a, b)


@cache
def products_along(axis: int, n: int) -> np.ndarray:
    """Returns the dot products along an axis of every second element, in two rows."""
    dot = named("gpuvec_dot_f64")
    rows = [array[: n // 4 * 4].reshape(2, -1)[:, ::2] for array in problem(dot, n)[:2]]
    slices = zip(*(np.moveaxis(array, axis, -1) for array in rows))
    return np.concatenate([dot.oracle(a.copy(), b.copy()) for a, b in slices])


# A dot product of f64, for tests of accumulators.
KIND = next(kind for kind in KINDS if kind.name == "dot_f64")
DOT_F64 = enumeration("gpuvec_accumulator_kind")["GPUVEC_ACCUMULATOR_DOT_F64"]

# Kinds of a, b and out, some of them on a device.
ON_DEVICE = [
    ("device", "device", "device"),
    ("device+5", "pageable+7", "device"),
    ("pageable", "device", "pinned+3"),
    ("pinned", "device+5", "pageable"),
    ("managed", "pageable", "device+5"),
]


@dataclass
class Call(OnArrays):
    """An operation on arrays; `in_place` names the input that is also the output, or is empty."""

    operation: Operation
    kinds: tuple[str, ...]
    n: int
    in_place: str = ""

    def __str__(self) -> str:
        """Operation, length and kinds, for a scenario's name."""
        kinds = " ".join(self.kinds_of_all().values())
        return f"{self.operation} of {self.n} {kinds}" + (self.in_place and f" in {self.in_place}")

    def kinds_of_all(self) -> dict[str, str]:
        """Returns the kind of each array that the operation has."""
        kinds = dict(zip(("a", "b", "out"), self.kinds))
        return {
            name: kinds[name] for name in self.operation.arrays[: -1 if self.in_place else None]
        }

    @property
    def written(self) -> str:
        """Returns the name of the array that holds the output."""
        return self.in_place or "out"

    def in_parent(self) -> None:
        """Makes inputs, result, and the arrays in pageable memory."""
        a, b, result = problem(self.operation, self.n)
        untouched = np.full(result.nbytes, GUARD_BYTE, np.uint8).view(result.dtype)
        values = {"a": a, "b": b, "out": untouched}
        kinds = self.kinds_of_all()
        self.lay_out(kinds, {name: values[name] for name in kinds}, {self.written: result})

    @property
    def always_answers(self) -> bool:
        """Returns whether the cores can do the work instead of the GPU: they access all arrays."""
        return not self.is_on_device

    def attempt(self) -> str:
        """Makes the call."""
        a, out = self.address("a"), self.address(self.written)
        b = self.address("b") if "b" in self.arrays else None
        return outcome_of(call_at(self.operation, a, b, out, self.n))

    def check(self, outcome: str, calls: list[str]) -> None:
        """Fails unless the output is right or untouched, and nothing else was written."""
        backend = last_run().backend
        assert (backend == Backend.NONE) == (outcome != RIGHT), f"{outcome} with {backend}"
        self.check_arrays(outcome, self.may_have_written(calls))

    def may_have_written(self, calls: list[str]) -> bool:
        """Returns whether a kernel that writes the output may have begun."""
        return self.operation.kind == "elementwise" and "cuLaunchKernel" in calls

    def is_half_done(self, calls: list[str]) -> bool:
        """Returns whether an input may be partly overwritten."""
        return bool(self.in_place) and self.may_have_written(calls)


class LongCall(Call):
    """An operation on arrays so long that only a few codes are tried."""

    codes = (2, 700)


class FamilyCall(Call):
    """An operation of the family; it shares the classic ones' code, so fewer faults are tried."""

    codes = ONE_OF_EACH
    turns = (1,)


@dataclass
class Accumulation(OnArrays):
    """An addition to an accumulator, which an error leaves as it was."""

    kinds: tuple[str, ...]
    n: int

    codes = ONE_OF_EACH

    def __str__(self) -> str:
        """For a scenario's name."""
        return f"accumulator, {self.n} {' '.join(self.kinds)}"

    def in_parent(self) -> None:
        """Makes inputs and the right value."""
        a, b, self.value = problem(named("gpuvec_dot_f64"), self.n)
        self.lay_out(dict(zip("ab", self.kinds)), {"a": a, "b": b}, {})

    def in_child(self) -> None:
        """Makes the arrays and an accumulator."""
        super().in_child()
        self.reset()

    @property
    def always_answers(self) -> bool:
        """Returns whether the cores can do the work: they access both arrays."""
        return not self.is_on_device

    def attempt(self) -> str:
        """Makes the call."""
        return outcome_of(
            lib.gpuvec_accumulator_add(self.accumulator, *self.addresses("a b"), self.n, None)
        )

    def check(self, outcome: str, calls: list[str]) -> None:
        """Fails unless all or nothing was added."""
        value, text = np.full_like(self.value, -1), last_error()
        assert lib.gpuvec_accumulator_value(self.accumulator, value.ctypes.data) == Status.OK
        expected = self.value if outcome == RIGHT else np.zeros_like(self.value)
        assert_holds(value, expected, f"value after {outcome} {text}")
        self.check_arrays(outcome, may_have_written=False)

    def reset(self) -> None:
        """Makes an empty accumulator."""
        super().reset()
        self.accumulator = lib.gpuvec_accumulator_create(DOT_F64)


@dataclass
class AccumulationAlongAxes(Accumulation):
    """The same along an axis of strided matrices of two rows.

    Rows are added on the GPU. Columns have states of more bytes than their elements: these are
    copied from the device, and cores add them.
    """

    axis: int

    @property
    def needs_gpu(self) -> bool:
        """Returns whether the GPU adds."""
        return self.axis == 1

    def __str__(self) -> str:
        """For a scenario's name."""
        return f"accumulator along axis {self.axis}, {self.n} {' '.join(self.kinds)}"

    def in_parent(self) -> None:
        """Makes inputs and the right value."""
        super().in_parent()
        self.value = products_along(self.axis, self.n)

    def attempt(self) -> str:
        """Makes the call."""
        strides = (self.n // 4 * 2 * 8, 16)
        arrays = [(address, strides) for address in self.addresses("a b")]
        return outcome_of(self.sums.add((2, self.n // 4), arrays, 1 << self.axis))

    def reset(self) -> None:
        """Makes an empty accumulator of a shape."""
        OnArrays.reset(self)
        self.sums = Sums(KIND, (2,) if self.axis == 1 else (self.n // 4,))
        self.accumulator = self.sums.handle


@dataclass
class Evaluation(OnArrays):
    """An expression of arrays of two widths, with an output for each formula."""

    formulas: tuple[Formula, ...]
    # Of a, b and the outputs, the last for all further ones.
    kinds: tuple[str, ...]
    n: int

    codes = ONE_OF_EACH

    def __str__(self) -> str:
        """For a scenario's name."""
        return f"expression {self.text_of_all}, {self.n} {' '.join(self.kinds)}"

    @property
    def text_of_all(self) -> str:
        """Returns the expression's text."""
        return "; ".join(formula.text for formula in self.formulas)

    def in_parent(self) -> None:
        """Makes inputs and result."""
        data = self.formulas[0].data(self.n)
        results = {
            f"out{number}": self.result(formula, data)
            for number, formula in enumerate(self.formulas)
        }
        untouched = {
            name: np.full(result.nbytes, GUARD_BYTE, np.uint8).view(result.dtype)
            for name, result in results.items()
        }
        kinds = (*self.kinds, *self.kinds[-1:] * len(self.formulas))
        self.lay_out(dict(zip((*data, *results), kinds)), {**data, **untouched}, results)

    def result(self, formula: Formula, data: dict[str, np.ndarray]) -> np.ndarray:
        """Returns the result of a formula."""
        return formula.expected(data)

    def in_child(self) -> None:
        """Makes the arrays, and compiles the text."""
        super().in_child()
        self.compiled = Compiled(self.text_of_all, self.formulas[0].inputs)

    @property
    def always_answers(self) -> bool:
        """Returns whether the cores can do the work: they access all arrays."""
        return not self.is_on_device

    def attempt(self) -> str:
        """Makes the call."""
        inputs = [self.address(name) for name in self.formulas[0].inputs]
        outs = [self.address(name) for name in self.results]
        if len(outs) > 1:
            return outcome_of(self.compiled.run_outputs(inputs, outs, self.n))
        return outcome_of(self.compiled.run(inputs, outs[0], self.n))

    def check(self, outcome: str, calls: list[str]) -> None:
        """Fails unless the outputs are right or untouched, and nothing else was written."""
        are_reductions = all(formula.is_reduction for formula in self.formulas)
        self.check_arrays(outcome, not are_reductions and "cuLaunchKernel" in calls)


class StridedEvaluation(Evaluation):
    """An elementwise expression of every second element of its arrays."""

    def __str__(self) -> str:
        """For a scenario's name."""
        return f"strided {super().__str__()}"

    def in_parent(self) -> None:
        """Leaves the elements between as they are."""
        super().in_parent()
        for name, result in self.results.items():
            result[1::2] = self.before[name][1::2]

    def attempt(self) -> str:
        """Makes the call."""
        every_second = {
            name: (self.address(name), (2 * values.itemsize,))
            for name, values in self.before.items()
        }
        inputs = [every_second[name] for name in self.formulas[0].inputs]
        outs = [every_second[name] for name in self.results]
        return outcome_of(self.compiled.run_nd([(self.n + 1) // 2], inputs, outs))


@dataclass
class AxisReduction(Evaluation):
    """Reductions of the rows or of the columns of a matrix, perhaps beside elementwise formulas."""

    rows: int
    axis: int

    def __str__(self) -> str:
        """For a scenario's name."""
        return f"{self.rows} rows along axis {self.axis}, {super().__str__()}"

    @property
    def shape(self) -> tuple[int, int]:
        """Returns the shape of the inputs."""
        return self.rows, self.n // self.rows

    def result(self, formula: Formula, data: dict[str, np.ndarray]) -> np.ndarray:
        """Returns the results of all slices, or those of all elements."""
        if not formula.is_reduction:
            return super().result(formula, data)
        tables = [array.reshape(self.shape) for array in data.values()]
        slices = zip(*(np.moveaxis(table, self.axis, -1) for table in tables))
        return np.concatenate([formula.expected(dict(zip(data, each))) for each in slices])

    def attempt(self) -> str:
        """Makes the call."""
        inputs = [self.address(name) for name in self.formulas[0].inputs]
        outs = [self.address(name) for name in self.results]
        return outcome_of(self.compiled.run_nd(self.shape, inputs, outs, 1 << self.axis))

    def check(self, outcome: str, calls: list[str]) -> None:
        """Fails unless the outputs are right or untouched, and nothing else was written."""
        self.check_arrays(outcome, "cuLaunchKernel" in calls)


@dataclass
class ReductionByKey(OnArrays):
    """The sums of the groups of an array, which an error leaves as they were."""

    # Of the values, the keys and the sums.
    kinds: tuple[str, ...]
    n: int

    codes = ONE_OF_EACH
    groups = 101

    def __str__(self) -> str:
        """For a scenario's name."""
        return f"sums by key, {self.n} {' '.join(self.kinds)}"

    def in_parent(self) -> None:
        """Makes inputs and result."""
        x = np.random.default_rng(self.n).integers(-999, 999, self.n).astype("f4")
        k = (np.arange(self.n) * 7 % self.groups).astype("i4")
        sums = np.bincount(k, x, self.groups).astype("f4")
        untouched = np.full(sums.nbytes, GUARD_BYTE, np.uint8).view("f4")
        names = ("x", "k", "sums")
        before = dict(zip(names, (x, k, untouched)))
        self.lay_out(dict(zip(names, self.kinds)), before, {"sums": sums})

    def in_child(self) -> None:
        """Makes the arrays, and compiles the text."""
        super().in_child()
        self.compiled = ByKey("sum(x)", "k", {"x": "f4", "k": "i4"})

    @property
    def always_answers(self) -> bool:
        """Returns whether the cores can do the work: they access all arrays."""
        return not self.is_on_device

    @property
    def needs_gpu(self) -> bool:
        """Returns whether cores must not do it: without memory for a table they reduce copies."""
        return not self.is_on_device

    def may_leave(self, failed: set[str]) -> bool:
        """Returns whether more may be held: copies for cores have slots of their own."""
        return super().may_leave(failed) or self.is_on_device

    def attempt(self) -> str:
        """Makes the call."""
        *inputs, sums = self.addresses("x k sums")
        return outcome_of(self.compiled.run((self.n,), inputs, [sums], self.groups))

    def check(self, outcome: str, calls: list[str]) -> None:
        """Fails unless the sums are right or untouched, and nothing else was written."""
        self.check_arrays(outcome, may_have_written=False)


class Trim(FamilyCall):
    """A call, and then `gpuvec_trim`, after which `gpuvec_memory` and the driver count the same."""

    def __str__(self) -> str:
        """For a scenario's name."""
        return f"gpuvec_trim after {super().__str__()}"

    def attempt(self) -> str:
        """Makes the calls."""
        outcome = super().attempt()
        return outcome if outcome != RIGHT else outcome_of(lib.gpuvec_trim(None))

    def check(self, outcome: str, calls: list[str]) -> None:
        """Fails unless the call is right, and what the library holds is what the driver counts."""
        super().check(outcome, calls)
        driver, held = FakeDriver(), held_memory()
        assert held.pinned == driver.count("host_bytes"), "pinned memory is not counted"
        assert held.device == driver.count("device_bytes"), "device memory is not counted"


class Init(Work):
    """`gpuvec_init`."""

    def __str__(self) -> str:
        """For a scenario's name."""
        return "gpuvec_init"

    def attempt(self) -> str:
        """Makes the call."""
        return outcome_of(lib.gpuvec_init())


class WhyCpu(Work):
    """`gpuvec_why_cpu`."""

    always_answers = False

    def __str__(self) -> str:
        """For a scenario's name."""
        return "gpuvec_why_cpu"

    def attempt(self) -> str:
        """Makes the call."""
        return Status.ERROR_NO_GPU.name if why_cpu() else RIGHT

    def text(self) -> str:
        """Returns the answer, which is not a last error."""
        return why_cpu()


@dataclass(frozen=True)
class Scenario:
    """Work with a placement, after `earlier` rounds of the same work in the process."""

    work: Work
    place: Place
    earlier: int

    def __str__(self) -> str:
        """Returns the name that --only searches."""
        return f"{self.work}, {self.place.name.lower()}, {'later' if self.earlier else 'first'}"


# Lengths of arrays that a GPU accesses mapped, or staged in four chunks or in five; and of arrays
# that it copies by DMA, or that placement auto stages in more chunks than there are slots.
FOUR, FIVE, LONG = 200_003, 270_003, 4_200_011
GPU_PLACES = (Place.GPU, Place.AUTO)
IN_PLACE = [(UNIFORM[0], "a"), (UNIFORM[2], "b"), (MIXED[0], "b")]

# One operation of the family for each shape (one array or two, with alpha or without, an output of
# the inputs' type or of another) and each element size.
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


def narrowed_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns the products, as float32."""
    return (a * b).astype(np.float32)


def count_less(a: np.ndarray, b: np.ndarray) -> np.int64:
    """Returns the number of elements of a that are less than b's."""
    return np.int64((a < b).sum())


def largest(a: np.ndarray, b: np.ndarray) -> np.float64:
    """Returns the largest product."""
    return (a * b).max()


PRODUCT = Formula("f32(a * b)", {"a": "f4", "b": "f8"}, narrowed_product)
COUNT = Formula("count(a < b)", {"a": "f4", "b": "f8"}, count_less, is_reduction=True)
FORMULAS = [(PRODUCT,), (COUNT,), (COUNT, PRODUCT)]
LARGEST = Formula("max(a * b)", {"a": "f4", "b": "f8"}, largest, is_reduction=True)


def works() -> Iterator[tuple[Work, Place]]:
    """Yields all work with the placements that suit it."""
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
    for formulas, kinds in product(FORMULAS, FAMILY_KINDS):
        is_on_device = any(kind in DEVICE_KINDS for kind in kinds)
        # With placement auto, cores evaluate host arrays until the driver has compiled the text.
        places = GPU_PLACES if is_on_device else (Place.GPU,)
        yield from ((Evaluation(formulas, kinds, FIVE // 2), place) for place in places)
    for kinds in FAMILY_KINDS:
        is_on_device = any(kind in DEVICE_KINDS for kind in kinds)
        places = GPU_PLACES if is_on_device else (Place.GPU,)
        yield from ((StridedEvaluation((PRODUCT,), kinds, FIVE // 2), place) for place in places)
        # Two long rows are each larger than a tile in host memory.
        rows = AxisReduction((COUNT, LARGEST), kinds, FIVE // 4 * 2, 2, 1)
        columns = AxisReduction((COUNT,), kinds, FIVE // 10 * 5, 5, 0)
        both = AxisReduction((PRODUCT, COUNT), kinds, FIVE // 10 * 5, 5, 0)
        yield from product((rows, columns, both), places)
    for kinds in FAMILY_KINDS:
        is_on_device = any(kind in DEVICE_KINDS for kind in kinds)
        places = GPU_PLACES if is_on_device else (Place.GPU,)
        yield from ((ReductionByKey(kinds, FOUR // 2), place) for place in places)
    for operation in (SHAPES[0], SHAPES[-1]):
        for n, place in host_calls(("pageable",) * 3):
            yield Trim(operation, ("pageable",) * 3, n), place
    for work in (Init(), WhyCpu()):
        yield from ((work, place) for place in GPU_PLACES)
    yield from scenarios_streams.works()


def host_calls(kinds: tuple[str, ...]) -> Iterator[tuple[int, Place]]:
    """Yields lengths and placements of calls on host arrays of these kinds."""
    yield from ((n, Place.GPU) for n in (FOUR, FIVE))
    # With placement auto, pageable arrays of these lengths stay on the CPU.
    goes_to_gpu = all(kind.startswith("pinned") for kind in kinds)
    yield from ((n, Place.AUTO) for n in ((FOUR, FIVE) if goes_to_gpu else (FOUR,)))


def family_works() -> Iterator[tuple[Work, Place]]:
    """Yields one operation of each shape on arrays of a few kinds."""
    for operation in SHAPES:
        # The lengths are those of elements of four bytes.
        size = np.dtype(operation.dtype).itemsize // 4
        for kinds in FAMILY_KINDS:
            is_on_device = any(kind in DEVICE_KINDS for kind in kinds)
            both = ((n, place) for n in (FOUR, FIVE) for place in GPU_PLACES)
            for n, place in both if is_on_device else host_calls(kinds):
                yield FamilyCall(operation, kinds, n // size), place
        if operation.may_be_in_place:
            yield FamilyCall(operation, UNIFORM[0], FIVE // size, "a"), Place.GPU
    for kinds in [("pageable",) * 2, ("pinned+3",) * 2]:
        yield from ((Accumulation(kinds, n // 2), place) for n, place in host_calls(kinds))
        yield AccumulationAlongAxes(kinds, FIVE // 2, 1), Place.GPU
        yield AccumulationAlongAxes(kinds, FIVE // 2, 0), Place.AUTO
    for kinds in [("device",) * 2, ("device+5", "pageable+7")]:
        on_gpu = [Accumulation(kinds, FIVE // 2), AccumulationAlongAxes(kinds, FIVE // 2, 1)]
        for work in *on_gpu, AccumulationAlongAxes(kinds, FOUR // 2, 0):
            yield from ((work, place) for place in GPU_PLACES)


def scenarios() -> list[Scenario]:
    """Returns the table, the longest scenarios first."""
    table = [Scenario(work, place, earlier) for work, place in works() for earlier in work.turns]
    return sorted(table, key=lambda scenario: -getattr(scenario.work, "n", 0))
