"""Random bit patterns, sizes, offsets, memory and aliasing, chosen by hypothesis."""

import numpy as np
from arrays import KINDS, assert_same_bits, call, call_at, filled, output
from bindings import Status, last_error
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from operations import OPERATIONS, SPECIAL_BITS
from oracles import unsigned

operations = st.sampled_from(OPERATIONS)
kinds = st.sampled_from(sorted(KINDS))


def elements(dtype, n: int):
    """Arrays of any bits, special ones more often than by chance."""
    bits = unsigned(dtype)
    special = st.sampled_from(SPECIAL_BITS[bits.itemsize])
    words = st.one_of(special, st.integers(0, np.iinfo(bits).max))
    return hnp.arrays(bits, n, elements=words).map(lambda array: array.view(dtype))


def sized(most):
    """An operation, and a length of its inputs for which there is a result."""

    def with_length(operation):
        least = 0 if operation.shape.has_empty_result else 1
        return st.tuples(st.just(operation), st.integers(least, most))

    return operations.flatmap(with_length)


@st.composite
def problems(draw):
    """An operation and two inputs of one length."""
    operation, n = draw(sized(300))
    return operation, draw(elements(operation.dtype, n)), draw(elements(operation.dtype, n))


def alpha_for(operation, data):
    """Draws any alpha if the operation takes one."""
    if not operation.shape.takes_alpha:
        return None
    return float(data.draw(elements(operation.dtype, 1))[0])


@given(problem=problems(), memory=st.tuples(kinds, kinds, kinds), data=st.data())
def test_any_bits(placement, problem, memory, data):
    """Any bits, in any memory, at any offset, give the oracle's result."""
    operation, *values = problem
    alpha = alpha_for(operation, data)
    a, b = (filled(kind, array) for kind, array in zip(memory, values))
    out = output(operation, memory[2], a.array.size)
    assert call(operation, a.array, b.array, out.array, alpha) == 0, last_error()
    assert_same_bits(out.array, operation.oracle(a.array, b.array, alpha))
    assert a.guards_are_intact() and b.guards_are_intact() and out.guards_are_intact()


@given(operation_and_n=sized(300_000), seed=st.integers(0, 2**32))
def test_any_size(placement, operation_and_n, seed):
    """Any length gives the oracle's bits."""
    operation, n = operation_and_n
    a, b = operation.data(np.random.default_rng(seed), n)
    out = np.zeros(operation.outputs(n), operation.out_dtype)
    assert call(operation, a, b, out) == 0, last_error()
    assert_same_bits(out, operation.oracle(a, b))


def cells(start: int, n: int) -> set:
    """Returns the indices of an array's elements in a block."""
    return set(range(start, start + n))


@given(
    operation=st.sampled_from([row for row in OPERATIONS if row.may_be_in_place]),
    kind=kinds,
    starts=st.tuples(*[st.integers(0, 60)] * 3),
    n=st.integers(1, 40),
    data=st.data(),
)
def test_any_aliasing(placement, operation, kind, starts, n, data):
    """Arrays anywhere in one block: partial overlap is refused, everything else is right."""
    block = filled(kind, data.draw(elements(operation.dtype, 100)))
    before = block.array.copy()
    a, b, out = starts
    outputs = operation.outputs(n)
    inputs = starts[: operation.shape.arity]
    overlaps = any(start != out and cells(start, n) & cells(out, outputs) for start in inputs)

    addresses = [block.address + start * block.array.itemsize for start in starts]
    status = call_at(operation, *addresses, n)

    expected = before.copy()
    if overlaps:
        assert status == Status.ERROR_OVERLAP
    else:
        assert status == Status.OK, last_error()
        expected[out : out + outputs] = operation.oracle(before[a : a + n], before[b : b + n])
    assert_same_bits(block.array, expected)
    assert block.guards_are_intact()
