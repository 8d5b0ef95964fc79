"""Accumulators by key: pieces, merged in any order, have the words of the whole."""

import ctypes
import pickle
from concurrent.futures import ThreadPoolExecutor

import gpuvec
import numpy as np
import pytest
from accumulators import Sums, lengths
from bindings import Place, Status, last_error, lib, placed
from corpus import KINDS
from exact_sums import by_rationals
from formulas import array_arguments
from header import enumeration
from streams import Resources, ok

TYPES = enumeration("gpuvec_type")
KEY_TYPES = {
    np.dtype(dtype): TYPES[f"GPUVEC_{dtype.replace('int', 'i').replace('ui', 'u').upper()}"]
    for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}

each_kind = pytest.mark.parametrize("kind", [pytest.param(kind, id=str(kind)) for kind in KINDS])


def add_by(sums: Sums, arrays: list, keys: np.ndarray, mask: int = 1, flags: int = 0) -> int:
    """Calls gpuvec_accumulator_add_by and returns its status."""
    shape = arrays[0].shape
    given, _kept = array_arguments(arrays)
    of_keys, _also = array_arguments([np.broadcast_to(keys, shape)])
    passed = lengths(shape)
    return lib.gpuvec_accumulator_add_by(
        sums.handle,
        len(shape),
        ctypes.addressof(passed),
        ctypes.addressof(given),
        ctypes.addressof(of_keys),
        KEY_TYPES[keys.dtype],
        mask,
        flags,
        None,
    )


def numbers(kind, shape, seed: int, spread: int = 40) -> list[np.ndarray]:
    """Returns arrays of many magnitudes, some of them zeros, NaNs and infinities."""
    rng = np.random.default_rng(seed)
    arrays = [
        np.ldexp(rng.standard_normal(shape), rng.integers(-spread, spread + 1, shape)).astype(
            kind.dtype
        )
        for _ in range(1 + kind.is_dot)
    ]
    arrays[0][rng.random(shape) < 0.1] = 0
    return arrays


def expected(arrays: list, keys: np.ndarray, groups: int) -> np.ndarray:
    """Returns the exact sum of each group, rounded once."""
    sums = [by_rationals(*(array[keys == group] for array in arrays))[0] for group in range(groups)]
    return np.array(sums, arrays[0].dtype)


def state_of_each(kind, arrays: list, keys: np.ndarray, groups: int) -> bytes:
    """Returns the bytes of the accumulators to which each group's elements are added alone."""
    states = []
    for group in range(groups):
        with Sums(kind) as sums:
            sums.add_along([np.ascontiguousarray(array[keys == group]) for array in arrays], (0,))
            states.append(sums.state())
    return b"".join(states)


@each_kind
@pytest.mark.parametrize("spread", [0, 3, 20, 60])
@pytest.mark.parametrize("dtype", KEY_TYPES, ids=str)
def test_words_are_those_of_each_group_alone(kind, spread, dtype):
    arrays = numbers(kind, 3000, spread, spread)
    arrays[0][:4] = np.nan, np.inf, -np.inf, np.inf
    keys = np.random.default_rng(1).integers(0, 50, 3000).astype(dtype)
    keys[:4] = 46, 47, 48, 49
    with Sums(kind, (52,)) as sums:
        ok(add_by(sums, arrays, keys))
        assert sums.state() == state_of_each(kind, arrays, keys, 52)
        assert sums.value().tobytes() == expected(arrays, keys, 52).tobytes()


@each_kind
def test_random_splits_and_merges_are_the_whole(kind):
    rng, groups, n = np.random.default_rng(5), 300, 20_000
    arrays, keys = numbers(kind, n, 7), rng.integers(0, groups, n)
    with Sums(kind, (groups,)) as whole:
        ok(add_by(whole, arrays, keys))
        right = whole.state()
    for _ in range(5):
        cuts = np.sort(rng.integers(0, n + 1, 6))
        pieces = np.array_split(rng.permutation(n), cuts)
        states = []
        with Sums(kind, (groups,)) as merged:
            for piece in pieces:
                with Sums(kind, (groups,)) as part:
                    ok(add_by(part, [array[piece] for array in arrays], keys[piece]))
                    states.append(np.frombuffer(part.state(), "<i8"))
                    ok(lib.gpuvec_accumulator_merge(merged.handle, part.handle))
            assert merged.state() == right
        with Sums(kind, (groups,), np.sum(states, axis=0).tobytes()) as added:
            assert added.state() == right


@each_kind
def test_along_axes_the_groups_take_the_place_of_the_first_reduced_axis(kind):
    rng, groups = np.random.default_rng(8), 5
    arrays = numbers(kind, (3, 40, 2, 6), 2)
    keys = rng.integers(0, groups, (40, 1, 6)).astype(np.int32)
    with Sums(kind, (3, groups, 2)) as sums:
        ok(add_by(sums, arrays, keys, 0b1010))
        value = sums.value()
    broadcast = np.broadcast_to(keys, arrays[0].shape)
    for i, j in np.ndindex(3, 2):
        flat = [array[i, :, j].reshape(-1) for array in arrays]
        right = expected(flat, broadcast[i, :, j].reshape(-1), groups)
        assert value[i, :, j].tobytes() == right.tobytes()


@each_kind
@pytest.mark.parametrize("wrong", [-1, 10, 2**40])
def test_a_key_outside_leaves_the_accumulator_as_it_was(kind, wrong):
    arrays, keys = numbers(kind, 70_000, 3), np.arange(70_000) % 10
    with Sums(kind, (10,)) as sums:
        ok(add_by(sums, arrays, keys))
        before = sums.state()
        keys[60_000] = wrong
        assert add_by(sums, arrays, keys) == Status.ERROR_VALUE
        assert f"element 60000 is {wrong}, but there are 10 groups" in last_error()
        assert sums.state() == before
    keys[:59_999] = -7
    with Sums(kind, (10,)) as left_out, Sums(kind, (10,)) as without:
        ok(add_by(left_out, arrays, keys, flags=1))
        rest = (keys >= 0) & (keys < 10)
        ok(add_by(without, [array[rest] for array in arrays], keys[rest]))
        assert left_out.state() == without.state()


def test_wrong_shapes_types_and_axes_are_refused():
    [kind] = [kind for kind in KINDS if kind.name == "sum_f64"]
    x, keys = np.ones((4, 6)), np.zeros((4, 6), np.int32)
    with Sums(kind, (3, 6)) as sums:
        ok(add_by(sums, [x], keys, 0b01))
        for mask in (0b00, 0b10, 0b11):
            assert add_by(sums, [x], keys, mask) == Status.ERROR_VALUE
        KEY_TYPES[np.dtype(np.float32)] = TYPES["GPUVEC_F32"]
        try:
            assert add_by(sums, [x], keys.astype(np.float32), 0b01) == Status.ERROR_VALUE
        finally:
            del KEY_TYPES[np.dtype(np.float32)]
        assert np.array_equal(sums.value(), [[4] * 6, [0] * 6, [0] * 6])
        ok(add_by(sums, [x[:0]], keys[:0], 0b01))
        assert sums.value().sum() == 24


def test_first_terms_that_are_not_typical():
    """Terms far below or above the first ones are added elsewhere, and change no bit."""
    [kind] = [kind for kind in KINDS if kind.name == "sum_f64"]
    rng = np.random.default_rng(0)
    for first, rest in [(1e-200, 1.0), (1e200, 1.0), (0.0, 1e-300), (np.inf, 1.0), (1.0, 1e308)]:
        x, keys = rng.standard_normal(30_000), rng.integers(0, 100, 30_000)
        x[:1000] *= first if np.isfinite(first) else 1
        x[1000:] *= rest if abs(rest) < 1e300 else 1e307
        x[:1000] += 0 if np.isfinite(first) else first
        with Sums(kind, (100,)) as sums:
            ok(add_by(sums, [x], keys))
            assert sums.state() == state_of_each(kind, [x], keys, 100)


def test_more_terms_than_words_hold():
    """After 2^20 terms the highest bits of words move on."""
    [kind] = [kind for kind in KINDS if kind.name == "sum_f32"]
    x = np.full(5_000_000, 3.0e5, np.float32)
    x[::3] = -1.2345
    keys = np.zeros(x.size, np.int32)
    keys[::5] = 1
    for threads in (1, 0):
        lib.gpuvec_set_num_threads(threads)
        with Sums(kind, (2,)) as sums:
            ok(add_by(sums, [x], keys))
            assert sums.state() == state_of_each(kind, [x], keys, 2)
    lib.gpuvec_set_num_threads(0)


def test_arrays_in_device_memory_are_copied():
    if lib.gpuvec_device_count() == 0:
        pytest.skip("no GPU")
    [kind] = [kind for kind in KINDS if kind.name == "dot_f64"]
    arrays, keys = numbers(kind, 5000, 1), np.arange(5000) % 7
    with Sums(kind, (7,)) as sums, Resources() as resources:
        on_device = [resources.array("device", array) for array in (*arrays, keys)]
        given = (ctypes.c_void_p * 6)()
        for number, memory in enumerate(on_device):
            given[2 * number] = memory.address
        shape, at = lengths((5000,)), ctypes.addressof(given)
        for place in (Place.AUTO, Place.GPU):
            with placed(place):
                ok(
                    lib.gpuvec_accumulator_add_by(
                        *(sums.handle, 1, ctypes.addressof(shape), at, at + 32),
                        *(KEY_TYPES[keys.dtype], 1, 0, None),
                    )
                )
        twice = [np.concatenate([array, array]) for array in (*arrays, keys)]
        assert sums.state() == state_of_each(kind, twice[:-1], twice[-1], 7)


def test_python_pieces_threads_and_pickles():
    rng, groups = np.random.default_rng(4), 40
    x, keys = rng.standard_normal(100_000) * 1e10, rng.integers(0, groups, 100_000)
    total = gpuvec.Accumulator("sum", np.float64, groups=groups)

    def of_piece(piece: np.ndarray) -> gpuvec.Accumulator:
        part = gpuvec.Accumulator("sum", np.float64, groups=groups)
        part.add(x[piece], by=keys[piece])
        return part

    with ThreadPoolExecutor(4) as pool:
        for part in pool.map(of_piece, np.array_split(rng.permutation(x.size), 9)):
            total.merge(pickle.loads(pickle.dumps(part)))
    whole = gpuvec.sum(x, by=keys, groups=groups)
    assert total.value().tobytes() == whole.tobytes()
    assert np.array_equal(total.count, np.bincount(keys, minlength=groups))
    words = gpuvec.Accumulator.from_words(total.to_words())
    assert words.value().tobytes() == whole.tobytes()


def test_python_axes_and_outside():
    rows = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    sums = gpuvec.Accumulator("sum", np.float32, shape=3, groups=2)
    sums.add(rows, axis=0, by=np.array([0, 1, 1, 0], np.uint8))
    assert np.array_equal(sums.value(), [[9, 11, 13], [9, 11, 13]])
    columns = gpuvec.Accumulator("dot", np.float32, shape=(4, 2))
    columns.add(rows, np.float32([1, 2, 3]), axis=1, by=np.array([0, 5, 1]), outside="ignore")
    assert np.array_equal(columns.value(), np.stack([rows[:, 0], 3 * rows[:, 2]], axis=1))
    with pytest.raises(gpuvec.ArgumentError, match="there are 2 groups"):
        columns.add(rows, np.float32([1, 2, 3]), axis=1, by=np.array([0, 5, 1]))
    with pytest.raises(TypeError, match="pass keys that are integers"):
        columns.add(rows, rows, axis=1, by=np.zeros(3))
    with pytest.raises(ValueError, match="outside is"):
        columns.add(rows, rows, axis=1, by=np.zeros(3, int), outside="drop")
