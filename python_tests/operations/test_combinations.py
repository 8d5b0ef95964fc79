"""Arguments in any kinds of memory: every combination is right and copies no more than needed."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from arrays import call_at
from bindings import Backend, PathBit, Place, last_error, last_run, lib, placed, why_cpu
from operations import FAMILY, OPERATIONS, Operation
from streams import Resources
from surrounded import Surrounded

pytestmark = pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")

# The memory of an array, and its offset there in elements.
KINDS = {
    "pageable": ("pageable", 1),
    "pinned": ("pinned", 0),
    "foreign pinned": ("foreign pinned", 3),
    "registered": ("registered", 0),
    "managed": ("managed", 0),
    "device": ("device", 0),
    "foreign device": ("foreign device", 0),
    "inside device": ("device", 5),
}
ON_DEVICE = {"device", "foreign device", "inside device"}

# Paths of a call on a GPU, and the kinds of memory that take each.
PATHS = {
    PathBit.STAGED: {"pageable"},
    PathBit.MAPPED | PathBit.DMA: {"pageable", "pinned", "foreign pinned", "registered"},
    PathBit.RESIDENT: {"managed", *ON_DEVICE},
}

Kinds = tuple[str, ...]


def representatives() -> list[Operation]:
    """Up to two operations of each shape and size of element."""
    alike = defaultdict(list)
    for operation in FAMILY:
        alike[operation.shape, np.dtype(operation.dtype).itemsize].append(operation)
    ends = [dict.fromkeys([found[0], found[-1]]) for found in alike.values()]
    return [operation for of_a_kind in ends for operation in of_a_kind]


def one_of_each_shape() -> list[Operation]:
    """An operation of each shape."""
    return list({operation.shape: operation for operation in FAMILY}.values())


def every(operation: Operation) -> Iterator[Kinds]:
    """Every combination of kinds for an operation's arrays."""
    return product(KINDS, repeat=len(operation.arrays))


def every_pair(operation: Operation) -> Iterator[Kinds]:
    """Combinations in which each kind in each place meets each kind in each other place."""
    kinds = list(KINDS)
    for first, second in product(range(len(kinds)), repeat=2):
        third = (first + second) % len(kinds)
        yield tuple(kinds[kind] for kind in (first, second, third)[: len(operation.arrays)])


def every_kind(operation: Operation) -> Iterator[Kinds]:
    """Combinations of different kinds, in which each kind is in each place once."""
    kinds = list(KINDS)
    steps = (0, 1, 3)[: len(operation.arrays)]
    for first in range(len(kinds)):
        yield tuple(kinds[(first + step) % len(kinds)] for step in steps)


class Arrays:
    """An operation's arrays in every kind of memory, and the right result."""

    def __init__(self, resources: Resources, operation: Operation, n: int):
        self.operation, self.n = operation, n
        a, b = operation.data(np.random.default_rng(n), n)
        self.expected = operation.oracle(a, b)
        self.untouched = np.zeros_like(self.expected)
        self.values = {"a": a, "b": b, "out": self.untouched}
        self.arrays = {
            (name, kind): Surrounded(resources, *KINDS[kind], self.values[name])
            for name in operation.arrays
            for kind in KINDS
        }

    def call(self, kinds: Kinds) -> None:
        """Calls the operation on arrays of these kinds and checks all that it wrote."""
        arrays = {name: self.arrays[name, kind] for name, kind in zip(self.operation.arrays, kinds)}
        addresses = {"b": None, **{name: array.address for name, array in arrays.items()}}
        assert call_at(self.operation, **addresses, n=self.n) == 0, f"{kinds}: {last_error()}"
        arrays["out"].check(self.expected)
        arrays["out"].put(self.untouched)

    def check_inputs(self) -> None:
        """Fails if an input, or something around it, was written."""
        for (name, _), array in self.arrays.items():
            array.check(self.values[name])


def check_path(operation: Operation, n: int, kinds: Kinds) -> None:
    """Fails unless the last call ran on a GPU and took the shortest path to each array."""
    # A reduction's output takes none.
    taken = [(kind, size) for kind, size in zip(kinds, operation.staged_bytes(n).values()) if size]
    found = {kind for kind, _ in taken}
    run = last_run()
    assert run.backend == Backend.GPU, kinds
    assert run.bytes_staged == sum(size for kind, size in taken if kind == "pageable"), kinds
    for bits, of_kinds in PATHS.items():
        assert bool(run.path & bits) == bool(found & of_kinds), (kinds, bits, run.path)


def check(place: Place, operation: Operation, n: int, combinations: Iterator[Kinds]) -> int:
    """Calls an operation with all of these combinations and returns their number."""
    count = 0
    with placed(place), Resources() as resources:
        arrays = Arrays(resources, operation, n)
        for kinds in combinations:
            arrays.call(kinds)
            if place == Place.GPU:
                check_path(operation, n, kinds)
            elif ON_DEVICE & set(kinds):
                assert last_run().backend == Backend.GPU, kinds
            count += 1
        arrays.check_inputs()
    return count


@pytest.fixture
def report(record_property):
    """Counts combinations for the summary."""
    return lambda count: record_property("combinations", count)


@pytest.mark.parametrize("n", [5, 4097])
@pytest.mark.parametrize("operation", representatives(), ids=str)
def test_every_combination(operation, n, report):
    report(check(Place.GPU, operation, n, every(operation)))


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
@pytest.mark.parametrize("place", [Place.GPU, Place.AUTO], ids=lambda place: place.name)
def test_every_pair_of_kinds(place, operation, report):
    """Placement auto uses a GPU for arrays of a device, and returns the same bits anywhere."""
    report(check(place, operation, 1001, every_pair(operation)))


def large(operation: Operation, n: int):
    """Returns the parameters of a test; the elementwise operations of f64 are emulated for long."""
    is_slow = operation.kind == "elementwise" and operation in one_of_each_shape()
    return pytest.param(operation, n, marks=pytest.mark.slow_on_fake_driver if is_slow else ())


@pytest.mark.parametrize(
    "operation, n",
    [
        *[large(operation, 300_003) for operation in representatives()],
        *[large(operation, 3_000_001) for operation in one_of_each_shape()],
    ],
    ids=str,
)
def test_large_arrays_of_every_kind(operation, n, report):
    report(check(Place.GPU, operation, n, every_kind(operation)))
