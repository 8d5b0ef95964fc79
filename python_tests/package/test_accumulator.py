"""gpuvec.Accumulator: exact sums in pieces have the bits of the whole."""

import copy
import pickle
import threading

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from corpus import KINDS, corpus
from exact_sums import by_exponents

each_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


def made(kind, *pieces) -> gpuvec.Accumulator:
    """Makes an accumulator of these pieces, each a tuple of arrays."""
    accumulator = gpuvec.Accumulator(kind.name[:3], kind.dtype)
    for piece in pieces:
        accumulator.add(*piece)
    return accumulator


def inputs(kind, n: int, seed: int = 0) -> tuple:
    """Returns arrays of many magnitudes."""
    rng = np.random.default_rng(seed)
    return tuple(
        np.ldexp(rng.standard_normal(n), rng.integers(-40, 40, n)).astype(kind.dtype)
        for _ in range(1 + kind.is_dot)
    )


def cut(arrays: tuple, *ends: int) -> list:
    """Cuts arrays into pieces."""
    return list(zip(*(np.split(array, ends) for array in arrays)))


def bits(accumulator: gpuvec.Accumulator) -> np.ndarray:
    """Returns the value as an array, whose bits can be compared."""
    return np.array([accumulator.value()])


def test_the_corpus_in_pieces(placement, cases):
    """Two pieces, merged; a sample of the cases."""
    for number in range(0, len(cases), 13):
        arrays = tuple(array for array in cases.case(number) if array is not None)
        first, second = cut(arrays, arrays[0].size // 3)
        whole = made(cases.kind, first)
        whole.merge(made(cases.kind, second))
        assert_same_bits(bits(whole), by_exponents(*arrays))


@pytest.fixture(params=KINDS, ids=str)
def cases(request):
    """Provides the corpus of each kind in turn."""
    return corpus(request.param)


@each_kind
def test_no_elements(kind):
    empty = made(kind)
    assert empty.count == 0
    assert_same_bits(bits(empty), np.zeros(1, kind.dtype))
    empty.add(*inputs(kind, 0))
    assert empty.count == 0


@each_kind
def test_any_pieces_in_any_order(placement, kind):
    """They have the bits of the library's own sum of the whole."""
    arrays = inputs(kind, 100_000)
    expected = np.array([getattr(gpuvec, kind.name[:3])(*arrays)])
    pieces = cut(arrays, 1, 8, 1000, 65_536, 65_537)
    for ordered in (pieces, pieces[::-1]):
        accumulator = made(kind, *ordered)
        assert accumulator.count == 100_000
        assert_same_bits(bits(accumulator), expected)


@each_kind
def test_memory_of_every_kind(placement, kind):
    """Pieces in pageable, pinned and device memory, mixed in one call, and read-only ones."""
    arrays = inputs(kind, 3000)
    accumulator = made(kind)
    first, second, third, fourth = cut(arrays, 700, 1500, 2000)
    accumulator.add(*map(gpuvec.to_device, first))
    pinned = [gpuvec.pinned_like(array) for array in second]
    for to, array in zip(pinned, second):
        to[:] = array
    accumulator.add(*pinned, stream=gpuvec.Stream())
    accumulator.add(gpuvec.to_device(third[0]), *third[1:])
    accumulator.add(*(array.tobytes() for array in fourth))
    assert_same_bits(bits(accumulator), by_exponents(*arrays))


def test_work_that_was_queued_before_is_waited_for(placement):
    """An addition on a stream sees what the stream's earlier work wrote."""
    x = gpuvec.to_device(np.ones(100_000, np.float32))
    total = gpuvec.Accumulator("sum", np.float32)
    with gpuvec.Stream() as stream:
        for _ in range(3):
            gpuvec.add(x, x, out=x, stream=stream)
            total.add(x, stream=stream)
    assert total.value() == (2 + 4 + 8) * 100_000


@each_kind
def test_the_value_may_be_read_at_any_time(kind):
    """Reading rounds a copy: later elements find the exact sum."""
    one, tiny = np.ones(1, kind.dtype), np.full(1, np.finfo(kind.dtype).eps / 4, kind.dtype)
    ones = (one,) * (1 + kind.is_dot)
    tinies = (tiny, one)[: 1 + kind.is_dot]
    accumulator = made(kind, ones)
    for _ in range(8):
        assert accumulator.value() == 1 or accumulator.count > 3
        accumulator.add(*tinies)
    assert accumulator.value() == 1 + 2 * np.finfo(kind.dtype).eps


@each_kind
def test_merging_leaves_the_other_as_it_is(kind):
    x, y = made(kind, inputs(kind, 500)), made(kind, inputs(kind, 300, seed=1))
    before = y.to_bytes()
    x += y
    assert y.to_bytes() == before and x.count == 800
    x.merge(x)
    assert x.count == 1600
    both = [np.concatenate(pair) for pair in zip(inputs(kind, 500), inputs(kind, 300, seed=1))]
    twice = [np.tile(array, 2) for array in both]
    assert_same_bits(bits(x), by_exponents(*twice))


@each_kind
def test_states_are_the_same_whatever_the_pieces(kind):
    """Equal sums have equal bytes."""
    arrays = inputs(kind, 1000)
    whole = made(kind, arrays)
    assert made(kind, *cut(arrays, 3, 700)[::-1]).to_bytes() == whole.to_bytes()


@each_kind
def test_words_add_up(kind):
    """As np.sum, MPI and NCCL add them; also in stages."""
    pieces = [inputs(kind, 200, seed=seed) for seed in range(9)]
    words = np.array([made(kind, piece).to_words() for piece in pieces])
    whole = made(kind, *pieces)
    for added in (words.sum(axis=0), words[:4].sum(axis=0) + words[4:].sum(axis=0)):
        accumulator = gpuvec.Accumulator.from_words(added)
        assert accumulator.to_bytes() == whole.to_bytes()
        assert_same_bits(bits(accumulator), bits(whole))


@each_kind
def test_words_of_a_million_states_add_up(kind):
    words = made(kind, tuple(-np.abs(array) for array in inputs(kind, 64))).to_words()
    total = gpuvec.Accumulator.from_words(words * (1 << 20))
    assert total.count == 64 << 20
    expected = made(kind, tuple(-np.abs(array) for array in inputs(kind, 64)))
    for _ in range(20):
        expected.merge(expected)
    assert total.to_bytes() == expected.to_bytes()


@each_kind
def test_pickles_and_copies(kind):
    original = made(kind, inputs(kind, 77))
    for same in (
        pickle.loads(pickle.dumps(original)),
        copy.copy(original),
        copy.deepcopy(original),
    ):
        assert same.to_bytes() == original.to_bytes()
        assert (same.operation, same.dtype) == (original.operation, original.dtype)
        same.add(*inputs(kind, 1))
        assert original.count == 77


def test_bytes_are_what_the_documentation_says():
    """The sum of 1.0 and 2.0 in float32, word by word; the first digit stands for 2^-149."""
    total = gpuvec.Accumulator("sum", np.float32)
    total.add(np.array([1, 2, np.inf], np.float32))
    words = total.to_words().tolist()
    magic = int.from_bytes(b"gv", "little") << 16 | 1 << 8 | 1
    assert words[:7] == [magic, 1, 3, 0, 0, 1, 0]
    assert sum(digit << 32 * k for k, digit in enumerate(words[7:-1])) == 3 << 149
    odd = 0x9E3779B97F4A7C15
    checksum = sum(w * pow(odd, len(words) - 1 - i, 1 << 64) for i, w in enumerate(words[:-1]))
    assert words[-1] % (1 << 64) == checksum % (1 << 64)


@each_kind
def test_every_damaged_byte_is_found(kind):
    state = made(kind, inputs(kind, 50)).to_bytes()
    for place in range(len(state)):
        for change in (1, 0x80):
            damaged = bytearray(state)
            damaged[place] ^= change
            with pytest.raises(
                gpuvec.ArgumentError, match="state does not hold an accumulator state"
            ) as error:
                gpuvec.Accumulator.from_bytes(damaged)
            assert error.value.status == gpuvec.Status.ERROR_STATE


@pytest.mark.parametrize("state", [b"", b"x", bytes(152), bytes(608), b"gv" * 76, b"\xff" * 1136])
def test_foreign_bytes_are_refused(state):
    with pytest.raises(gpuvec.ArgumentError) as error:
        gpuvec.Accumulator.from_bytes(state)
    assert error.value.status == gpuvec.Status.ERROR_STATE


def test_incomplete_bytes_are_refused():
    state = gpuvec.Accumulator("dot", np.float64).to_bytes()
    for wrong in (state[:-8], state + bytes(8), state[8:], state[:16]):
        with pytest.raises(gpuvec.ArgumentError, match="state does not hold an accumulator state"):
            gpuvec.Accumulator.from_bytes(wrong)


def test_words_of_two_kinds_do_not_add_up():
    x, y = (gpuvec.Accumulator("sum", dtype).to_words() for dtype in (np.float32, np.float64))
    with pytest.raises(gpuvec.ArgumentError, match="^words does not hold an accumulator state"):
        gpuvec.Accumulator.from_words(x + y[: x.size])


def test_there_are_fewer_than_two_to_the_63_elements():
    """An accumulator that would have more is an error, and stays as it is."""
    total = gpuvec.Accumulator("sum", np.float32)
    total.add(np.full(1, -3, np.float32))
    for _ in range(62):
        total.merge(total)
    assert total.count == 1 << 62 and total.value() == -3 * 2.0**62
    with pytest.raises(gpuvec.ArgumentError, match="2\\^63") as error:
        total.merge(total)
    assert error.value.status == gpuvec.Status.ERROR_SIZE
    assert total.count == 1 << 62


def test_threads_share_an_accumulator(placement):
    """Additions, merges and reads of several threads at the same time lose nothing."""
    arrays = np.ldexp(1.0, np.arange(-30, 30))
    total, part = (gpuvec.Accumulator("sum", np.float64) for _ in range(2))
    part.add(arrays)

    def work():
        for _ in range(200):
            total.add(arrays)
            total.merge(part)
            total.value()
            part.to_bytes()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total.count == 4 * 200 * 2 * 60
    assert total.value() == 1600 * (2.0**30 - 2.0**-30)


def test_wrong_arguments_are_named():
    total = gpuvec.Accumulator("sum", np.float32)
    product = gpuvec.Accumulator("dot", np.float64)
    a, b = np.ones(3, np.float32), np.ones(3)
    for error, text, call in [
        (ValueError, "operation is 'mean'", lambda: gpuvec.Accumulator("mean", np.float32)),
        (TypeError, "dtype is int32", lambda: gpuvec.Accumulator("sum", np.int32)),
        (TypeError, "a has dtype float64", lambda: total.add(b)),
        (TypeError, "b is given", lambda: total.add(a, a)),
        (TypeError, "b is missing", lambda: product.add(b)),
        (TypeError, "b has dtype float32", lambda: product.add(b, a)),
        (ValueError, "b has shape", lambda: product.add(b, np.ones(2))),
        (TypeError, "a is a builtins.list", lambda: total.add([1.0])),
        (TypeError, "stream is of type int", lambda: total.add(a, stream=1)),
        (TypeError, "other is of type int", lambda: total.merge(1)),
        (TypeError, "words has dtype float64", lambda: gpuvec.Accumulator.from_words(np.ones(18))),
        (
            ValueError,
            "^other is a dot product of float64, but this accumulator is a sum of float32: merge",
            lambda: total.merge(product),
        ),
    ]:
        with pytest.raises(error, match=text):
            call()
    with pytest.raises(TypeError):
        total += 1
    assert total.count == product.count == 0
