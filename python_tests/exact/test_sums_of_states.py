"""Sums of any states that can be read are right, or GPUVEC_ERROR_SIZE.

States are written here, word by word, as docs/explanation/exact_sums.md says: also those of more
elements than a test can add. The oracle adds their elements, special terms and sums as Python's
integers.
"""

from fractions import Fraction
from typing import NamedTuple

import gpuvec
import numpy as np
import pytest
from exact_sums import nearest
from hypothesis import given
from hypothesis import strategies as st
from oracles import QUIET_NAN, unsigned

MOST_ELEMENTS = 2**63 - 1
MOST_STATES = 2**30
G = 0x9E3779B97F4A7C15


class Kind(NamedTuple):
    """A row of the table in docs/explanation/exact_sums.md; terms are m * 2^low, below 2^top."""

    name: str
    number: int
    dtype: type
    low: int
    top: int
    digits: int


KINDS = [
    Kind("sum_f32", 1, np.float32, -149, 128, 11),
    Kind("dot_f32", 2, np.float32, -298, 256, 20),
    Kind("sum_f64", 3, np.float64, -1074, 1024, 68),
    Kind("dot_f64", 4, np.float64, -2148, 2048, 134),
]


class Terms(NamedTuple):
    """Terms: how many; whether some are NaN, Inf, -Inf; the sum of the others in units of 2^low."""

    elements: int
    special: tuple
    total: int


def words(kind: Kind, terms: Terms) -> list:
    """Writes a state."""
    halves = [terms.elements % 2**32, terms.elements >> 32]
    lower = [terms.total >> 32 * k & 0xFFFFFFFF for k in range(kind.digits - 1)]
    digits = [*lower, terms.total >> 32 * (kind.digits - 1)]
    state = [0x7667 << 16 | 1 << 8 | kind.number, 1, *halves, *terms.special, *digits]
    checksum = sum(word * pow(G, len(state) - i, 2**64) for i, word in enumerate(state))
    return [*state, checksum]


def wrapped(integers: list) -> np.ndarray:
    """Returns integers as those of 64 bits, which wrap."""
    return np.array([integer % 2**64 for integer in integers], np.uint64).view(np.int64)


def value(kind: Kind, terms: Terms) -> np.ndarray:
    """Returns the sum of terms, rounded once, as an array whose bits can be compared."""
    nan, plus, minus = terms.special
    if nan or (plus and minus):
        return np.array([QUIET_NAN[np.dtype(kind.dtype)]]).view(unsigned(np.dtype(kind.dtype)))
    bits = unsigned(np.dtype(kind.dtype))
    if plus or minus:
        return np.array([-np.inf if minus else np.inf], kind.dtype).view(bits)
    magnitude = nearest(abs(Fraction(terms.total) * Fraction(2) ** kind.low), np.dtype(kind.dtype))
    return np.array([magnitude | (terms.total < 0) << (8 * bits.itemsize - 1)], bits)


@st.composite
def any_terms(draw, kind: Kind) -> Terms:
    """Draws terms as few and as many as can be, with sums as large as they can have."""
    special = tuple(draw(st.lists(st.integers(0, 1), min_size=3, max_size=3)))
    many = st.sampled_from([2**e + d for e in (2, 31, 32, 42, 43, 61, 62) for d in (-1, 0, 1)])
    few = st.integers(0, 5)
    elements = max(draw(st.one_of(few, many, st.just(MOST_ELEMENTS))), sum(special))
    most = (elements - sum(special)) << (kind.top - kind.low)
    total = draw(st.one_of(st.sampled_from([-most, most, 0]), st.integers(-most, most)))
    return Terms(elements, special, total)


def added(parts: list) -> Terms:
    """Adds terms, each as often as its number says."""
    return Terms(
        sum(terms.elements * times for terms, times in parts),
        tuple(int(any(flags)) for flags in zip(*(terms.special for terms, _ in parts))),
        sum(terms.total * times for terms, times in parts),
    )


def check(kind: Kind, accumulator: gpuvec.Accumulator, expected: Terms) -> None:
    """Checks the number of elements, the value and the bytes."""
    assert accumulator.count == expected.elements
    bits = np.array([accumulator.value()]).view(unsigned(np.dtype(kind.dtype)))
    assert bits == value(kind, expected)
    assert accumulator.to_bytes() == wrapped(words(kind, expected)).tobytes()
    again = gpuvec.Accumulator.from_bytes(accumulator.to_bytes())
    assert again.to_bytes() == accumulator.to_bytes()


def check_sum(kind: Kind, parts: list) -> None:
    """Checks the sum of states, each added as often as its number says, and all merged."""
    columns = zip(*(words(kind, terms) for terms, _ in parts))
    times = [times for _, times in parts]
    sums = wrapped([sum(word * n for word, n in zip(column, times)) for column in columns])
    expected = added(parts)
    if expected.elements > MOST_ELEMENTS or sum(times) > MOST_STATES:
        with pytest.raises(gpuvec.ArgumentError, match="the sum of too many states") as error:
            gpuvec.Accumulator.from_words(sums)
        assert error.value.status == gpuvec.Status.ERROR_SIZE
    else:
        check(kind, gpuvec.Accumulator.from_words(sums), expected)


each_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


@each_kind
@given(data=st.data())
def test_any_states_as_often_as_may_be(kind, data):
    times = st.one_of(st.integers(1, 5), st.sampled_from([2**20, 2**20 - 1, MOST_STATES - 4]))
    parts = st.lists(st.tuples(any_terms(kind), times), min_size=1, max_size=3)
    check_sum(kind, data.draw(parts))


@each_kind
@given(data=st.data())
def test_merging_any_states(kind, data):
    """As adding them; an accumulator that would be too large stays as it is."""
    parts = data.draw(st.lists(any_terms(kind), min_size=1, max_size=6))
    total = gpuvec.Accumulator(kind.name[:3], kind.dtype)
    so_far = []
    for terms in parts:
        other = gpuvec.Accumulator.from_words(wrapped(words(kind, terms)))
        if added([*so_far, (terms, 1)]).elements > MOST_ELEMENTS:
            with pytest.raises(gpuvec.ArgumentError, match="2\\^63") as error:
                total.merge(other)
            assert error.value.status == gpuvec.Status.ERROR_SIZE
        else:
            so_far.append((terms, 1))
            total.merge(other)
        if so_far:
            check(kind, total, added(so_far))


@each_kind
def test_sums_that_once_wrapped_or_were_refused(kind):
    """Four states of 2^62 NaN each; five of the largest terms; as many states as can be."""
    nan = Terms(2**62, (1, 0, 0), 0)
    check_sum(kind, [(nan, 4)])
    check_sum(kind, [(nan._replace(elements=2**42), 2**20)])
    check_sum(kind, [(Terms(1, (0, 1, 0), 0), 2**29), (Terms(1, (0, 0, 1), 0), 2**29)])
    largest = 1 << (kind.top - kind.low)
    for n in (1, 2**40, 2**60):
        check_sum(kind, [(Terms(n, (0, 0, 0), n * (largest - 1)), 5)])
        check_sum(kind, [(Terms(n, (0, 0, 0), -n * largest), 2**20)])
    for times in (MOST_STATES + 1, 2**50, 2**62):
        check_sum(kind, [(Terms(0, (0, 0, 0), 0), times)])


@each_kind
def test_states_that_no_terms_have(kind):
    """A sum that is too large for its elements, and special terms without elements."""
    most = 1 << (kind.top - kind.low)
    for terms in (
        Terms(0, (0, 0, 0), 1),
        Terms(3, (0, 0, 0), 3 * most + 1),
        Terms(3, (0, 1, 0), -2 * most - 1),
        Terms(1, (1, 0, 1), 0),
    ):
        with pytest.raises(gpuvec.ArgumentError) as error:
            gpuvec.Accumulator.from_words(wrapped(words(kind, terms)))
        assert error.value.status == gpuvec.Status.ERROR_STATE
