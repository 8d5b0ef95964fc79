"""Results have the oracle's bits, whatever memory the arrays are in; nothing else is written."""

import mmap

import numpy as np
import pytest
from arrays import (
    MIXED,
    UNIFORM,
    assert_same_bits,
    call,
    call_at,
    compute,
    filled,
    guarded,
    output,
)
from bindings import Place, Status, last_error, lib
from operations import CLASSIC, FAMILY, OPERATIONS, sized

SMALL = [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 127, 128, 129, 1000, 4095, 4096, 4097]
MEDIUM = [8191, 8192, 8193, 12_289, 65_535, 65_536, 65_537]
LARGE = [n + d for n in (131_072, 262_144, 1_048_576) for d in (-1, 0, 1)]
SEVERAL_CHUNKS = 5_000_003

each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=str)
each_classic = pytest.mark.parametrize("operation", CLASSIC, ids=str)
each_of_family = pytest.mark.parametrize("operation", FAMILY, ids=str)


def check(operation, kinds, n):
    """Computes with arrays of these kinds; checks bits, inputs and all around the output."""
    a, b = (
        filled(kind, values)
        for kind, values in zip(kinds, operation.data(np.random.default_rng(n), n))
    )
    out = output(operation, kinds[2], n)
    inputs = a.snapshot(), b.snapshot()
    if n == 0 and not operation.shape.has_empty_result:
        assert call(operation, a.array, b.array, out.array) == Status.ERROR_EMPTY
        return
    assert call(operation, a.array, b.array, out.array) == 0, last_error()
    assert_same_bits(out.array, operation.oracle(a.array, b.array))
    assert (a.snapshot(), b.snapshot()) == inputs
    assert out.guards_are_intact()


@each_classic
@pytest.mark.parametrize("kinds", UNIFORM + MIXED, ids=",".join)
@pytest.mark.parametrize("n", SMALL)
def test_small_arrays_of_every_kind(placement, operation, kinds, n):
    """Sizes around those of registers, cache lines and lanes."""
    check(operation, kinds, n)


@each_classic
@pytest.mark.parametrize("kinds", UNIFORM + MIXED, ids=",".join)
@pytest.mark.parametrize("n", MEDIUM)
def test_medium_arrays_of_every_kind(placement, operation, kinds, n):
    """Sizes around the limits from which several cores share the work."""
    check(operation, kinds, n)


@each_classic
@pytest.mark.parametrize("kinds", [("pageable+1",) * 3, ("pinned",) * 3, MIXED[0]], ids=",".join)
@pytest.mark.parametrize("n", LARGE)
def test_large_arrays(placement, operation, kinds, n):
    """Sizes around the limits from which calls work in chunks and copy arrays by DMA."""
    check(operation, kinds, n)


@each_classic
@pytest.mark.parametrize("kinds", [("pageable",) * 3, ("pinned+3",) * 3, *MIXED], ids=",".join)
def test_several_chunks(placement, operation, kinds):
    """The last of many chunks is short."""
    check(operation, kinds, SEVERAL_CHUNKS)


@each_of_family
@pytest.mark.parametrize("kinds", [("pageable",) * 3, ("pageable+1",) * 3, MIXED[1]], ids=",".join)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 9, 33, 129, 4095, 4096, 4097, 65_537])
def test_the_family_at_every_edge(placement, operation, kinds, n):
    """Sizes just past each edge, for the whole family."""
    check(operation, kinds, n)


@each_of_family
@pytest.mark.parametrize("kinds", [("pageable+1",) * 3, ("pinned+3",) * 3, MIXED[2]], ids=",".join)
def test_the_family_in_several_chunks(placement, operation, kinds):
    """Several chunks for elements of every size."""
    check(operation, kinds, 600_011)


@pytest.mark.parametrize(
    "operation, n", sized([1, 4097, 65_537, 1_048_577, SEVERAL_CHUNKS], [65_537]), ids=str
)
def test_same_bits_as_on_the_cpu(placement, operation, n):
    """Every placement agrees with the CPU."""
    a, b = operation.data(np.random.default_rng(n), n)
    here = compute(operation, a, b)
    lib.gpuvec_set_placement(Place.CPU)
    assert_same_bits(here, compute(operation, a, b))


def aliases(operation) -> list:
    """The combinations of an operation's arrays that may be the same array."""
    of_inputs = ["a is b"] if operation.shape.arity == 2 else []
    of_output = ["out is a", "out is b", "all are one"] if of_inputs else ["out is a"]
    return of_inputs + (of_output if operation.may_be_in_place else [])


@pytest.mark.parametrize(
    "operation, n, alias",
    [
        (operation, n, alias)
        for operation, n in sized([1, 33, 4097, 65_537, 1_048_577], [33, 65_537])
        for alias in aliases(operation)
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["pageable+1", "pinned"])
def test_in_place(placement, operation, kind, n, alias):
    """The output may be an input, the inputs one array, and all three the same."""
    a_values, b_values = operation.data(np.random.default_rng(n), n)
    a, b = filled(kind, a_values), filled(kind, b_values)
    if alias in ("a is b", "all are one"):
        b, b_values = a, a_values
    apart = output(operation, kind, n)
    out = {"out is a": a, "out is b": b, "a is b": apart, "all are one": a}[alias]
    assert call(operation, a.array, b.array, out.array) == 0, last_error()
    outputs = operation.outputs(n)
    assert_same_bits(out.array[:outputs], operation.oracle(a_values, b_values))
    for block, values in ((a, a_values), (b, b_values)):
        written = outputs if block is out else 0
        assert_same_bits(block.array[written:], values[written:])
    assert all(block.guards_are_intact() for block in (a, b, out))


@pytest.mark.parametrize(
    "operation, n",
    [row for row in sized([100, 65_537, 1_048_577], [100]) if row[0].shape.arity == 2],
    ids=str,
)
def test_inputs_may_overlap_each_other(placement, operation, n):
    """Only the output must not overlap."""
    values, _ = operation.data(np.random.default_rng(n), n + 3)
    a, b = values[:n], values[3:]
    assert_same_bits(compute(operation, a, b), operation.oracle(a, b))


@pytest.mark.parametrize("operation, n", sized([1000, 1_048_577], [1000]), ids=str)
def test_inputs_may_be_read_only(placement, operation, n, tmp_path):
    """Inputs are only read, so a read-only mapping of a file is a valid input."""
    values, _ = operation.data(np.random.default_rng(n), n)
    (tmp_path / "values").write_bytes(values.tobytes())
    with open(tmp_path / "values", "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    a = np.frombuffer(mapped, operation.dtype)
    assert_same_bits(compute(operation, a, a), operation.oracle(values, values))


@pytest.mark.parametrize("operation, n", sized([1, 128, 65_537, 1_048_577], [1, 128]), ids=str)
def test_output_may_touch_an_input(placement, operation, n):
    """Arrays that only meet at an end do not overlap."""
    values, b = operation.data(np.random.default_rng(n), n)
    expected = operation.oracle(values, b)
    step = expected.itemsize // values.itemsize
    room, end = expected.size * step, n + -n % step
    block = np.zeros(room + end + room, operation.dtype)
    a = block[room : room + n]
    a[:] = values
    for out in (block[:room], block[room + end :]):
        out = out.view(expected.dtype)
        assert call(operation, a, b, out) == 0, last_error()
        assert_same_bits(out, expected)
    assert_same_bits(a, values)


@each_operation
def test_nothing_to_do_touches_no_input(placement, operation):
    """With `n == 0` pointers may be anything, but a sum needs an address to store +0."""
    out = guarded("pageable", operation.out_dtype, 1)
    status = Status.OK if operation.shape.has_empty_result else Status.ERROR_EMPTY
    is_stored = operation.kind == "reduction" and status == Status.OK
    expected = np.zeros_like(out.array) if is_stored else out.array.copy()
    for address in (0, 1, out.address):
        for to in (0, out.address):
            expected_status = Status.ERROR_NULL if is_stored and to == 0 else status
            assert call_at(operation, address, address, to, 0) == expected_status, last_error()
            assert status == Status.OK or "there are no elements" in last_error()
    assert_same_bits(out.array, expected)
    assert out.guards_are_intact()
