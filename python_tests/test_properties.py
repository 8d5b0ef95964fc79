"""Anything goes: bit patterns, sizes, offsets, memory, aliasing, chosen by hypothesis."""

import numpy as np
from arrays import KINDS, assert_same_bits, call, filled, guarded
from bindings import Status, last_error, lib
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from operations import OPERATIONS, SPECIAL_BITS

operations = st.sampled_from(OPERATIONS)
kinds = st.sampled_from(sorted(KINDS))
words = st.one_of(st.sampled_from(SPECIAL_BITS), st.integers(0, 2**32 - 1))


def bits(n: int):
    """Arrays of any bits, special ones more often than by chance."""
    return hnp.arrays(np.uint32, n, elements=words)


@st.composite
def pairs_of_bits(draw):
    """Two of them, of one length."""
    n = draw(st.integers(0, 300))
    return draw(bits(n)), draw(bits(n))


@given(operation=operations, data=pairs_of_bits(), memory=st.tuples(kinds, kinds, kinds))
def test_any_bits(placement, operation, data, memory):
    """Any bits, in any memory, at any offset, give the oracle's."""
    a, b = (filled(kind, words.view(operation.dtype)) for kind, words in zip(memory, data))
    out = guarded(memory[2], operation.dtype, operation.outputs(a.array.size))
    assert call(operation, a.array, b.array, out.array) == 0, last_error()
    assert_same_bits(out.array, operation.oracle(a.array, b.array))
    assert a.guards_are_intact() and b.guards_are_intact() and out.guards_are_intact()


@given(operation=operations, n=st.integers(0, 300_000), seed=st.integers(0, 2**32))
def test_any_size(placement, operation, n, seed):
    """Any length gives the oracle's bits."""
    a, b = operation.data(np.random.default_rng(seed), n)
    out = np.zeros(operation.outputs(n), operation.dtype)
    assert call(operation, a, b, out) == 0, last_error()
    assert_same_bits(out, operation.oracle(a, b))


def cells(start: int, n: int) -> set:
    """The places that an array takes in a block."""
    return set(range(start, start + n))


@given(
    operation=operations,
    arena=bits(100),
    kind=kinds,
    starts=st.tuples(*[st.integers(0, 60)] * 3),
    n=st.integers(1, 40),
)
def test_any_aliasing(placement, operation, arena, kind, starts, n):
    """Arrays anywhere in one block: partial overlap is refused, everything else is right."""
    block = filled(kind, arena.view(operation.dtype))
    before = block.array.copy()
    a, b, out = starts
    outputs = operation.outputs(n)
    overlaps = any(start != out and cells(start, n) & cells(out, outputs) for start in (a, b))

    addresses = [block.address + start * block.array.itemsize for start in starts]
    status = getattr(lib, operation.name)(*addresses, n)

    expected = before.copy()
    if overlaps:
        assert status == Status.ERROR_OVERLAP
    else:
        assert status == Status.OK, last_error()
        expected[out : out + outputs] = operation.oracle(before[a : a + n], before[b : b + n])
    assert_same_bits(block.array, expected)
    assert block.guards_are_intact()
