"""Reductions by key in memory of every kind, on cores and GPUs, and on streams."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from bindings import Place, Status, last_error, lib
from compiled_by_key import IGNORE_OUTSIDE, ByKey
from exact_sums import by_exponents, by_rationals, nearest
from on_fake_driver import needs_fake_driver, run
from oracles import unsigned
from streams import KINDS, Resources, ok

GROUPS = 37
N = 5003


def fractions(x: np.ndarray) -> list:
    """Returns finite values as fractions."""
    return [Fraction(value) for value in x.tolist()]


def mean(x: np.ndarray) -> np.ndarray:
    """Returns the mean, rounded once."""
    total = sum(fractions(x)) / x.size
    bits = nearest(abs(total), x.dtype)
    return np.array([bits], unsigned(x.dtype)).view(x.dtype) * (-1 if total < 0 else 1)


def var(x: np.ndarray) -> np.ndarray:
    """Returns the variance, rounded once."""
    exact = fractions(x)
    middle = sum(exact) / x.size
    total = sum((value - middle) ** 2 for value in exact) / x.size
    return np.array([nearest(total, x.dtype)], unsigned(x.dtype)).view(x.dtype)


# Reductions of each kind, with the types of the values and of the results, and their oracles.
EXACT = [
    ("sum(x)", "f4", "f4", by_exponents),
    ("sum(x)", "f8", "f8", by_exponents),
    ("dot(x, x)", "f4", "f4", lambda x: by_exponents(x, x)),
    ("dot(x, x)", "f8", "f8", lambda x: by_exponents(x, x)),
    ("sum(x)", "i4", "i8", lambda x: [x.sum(dtype="i8")]),
    ("count(x > 0)", "f4", "i8", lambda x: [(x > 0).sum()]),
    ("min(x)", "f4", "f4", lambda x: [x.min()]),
    ("max(x)", "f8", "f8", lambda x: [x.max()]),
    ("max(x)", "i4", "i4", lambda x: [x.max()]),
    ("any(x > 2)", "f4", "?", lambda x: [(x > 2).any()]),
    ("prod(x)", "i4", "i8", lambda x: [np.multiply.reduce(x.astype("i8"))]),
    ("mean(x)", "f4", "f4", mean),
    ("var(x)", "f8", "f8", var),
    ("argmax(x)", "f4", "i8", None),
]
TEXTS = [f"{text} {dtype}" for text, dtype, _, _ in EXACT]


def values(dtype: str, n: int, seed: int = 1) -> np.ndarray:
    """Returns values of many magnitudes."""
    rng = np.random.default_rng(seed)
    if dtype == "i4":
        return rng.integers(-50, 50, n).astype(dtype)
    spread = 2.0 ** rng.integers(-30, 20, n)
    return (rng.standard_normal(n) * spread).astype(dtype)


def keys(n: int, groups: int, dtype: str = "i4", seed: int = 2) -> np.ndarray:
    """Returns keys; the first groups have elements."""
    drawn = np.random.default_rng(seed).integers(0, groups, n)
    drawn[: min(n, groups)] = np.arange(min(n, groups))
    return drawn.astype(dtype)


def expected(oracle, x: np.ndarray, k: np.ndarray, groups: int, dtype: str) -> np.ndarray:
    """Returns the results of each group alone."""
    if oracle is None:
        places = [np.flatnonzero(k == group) for group in range(groups)]
        return np.array([place[x[place].argmax()] for place in places], dtype)
    return np.array([oracle(x[k == group])[0] for group in range(groups)], dtype)


@cache
def case(number: int, n: int = N, groups: int = GROUPS) -> tuple:
    """Returns the text, the values, the keys and the results of a reduction."""
    text, dtype, result, oracle = EXACT[number]
    x, k = values(dtype, n), keys(n, groups)
    return text, x, k, expected(oracle, x, k, groups, result)


def check(resources, number: int, kinds: tuple, n: int = N, groups: int = GROUPS, stream=None):
    """Reduces arrays in memory of these kinds: of values, keys and results."""
    text, x, k, results = case(number, n, groups)
    arrays = [resources.array(kind, array) for kind, array in zip(kinds, (x, k))]
    out = resources.array(kinds[2], np.full(groups, 1, results.dtype))
    with ByKey(text, "k", {"x": x.dtype, "k": k.dtype}) as by_key:
        addresses = [array.address for array in arrays]
        ok(by_key.run((n,), addresses, [out.address], groups, stream=stream))
    assert out.get(results.dtype)[:groups].tobytes() == results.tobytes()


MIXED = [
    *((kind,) * 3 for kind in KINDS),
    ("device", "device", "pageable"),
    ("pageable", "pinned", "device"),
    ("pinned", "device", "managed"),
]


@pytest.mark.parametrize("kinds", MIXED, ids=", ".join)
@pytest.mark.parametrize("number", range(len(EXACT)), ids=TEXTS)
def test_memory_of_every_kind(placement, number, kinds):
    with Resources() as resources:
        check(resources, number, kinds)


@pytest.mark.parametrize("kind", ["pageable", "device"])
@pytest.mark.parametrize("number", [0, 6, len(EXACT) - 1])
def test_a_stream(placement, number, kind):
    """The call waits for the work queued before, and returns when its own is done."""
    with Resources() as resources:
        text, x, k, results = case(number)
        stream = resources.stream()
        first = resources.array("device", x)
        copied = resources.array("device", np.zeros_like(x))
        of_keys = resources.array(kind, k)
        out = resources.array(kind, np.ones(GROUPS, results.dtype))
        with ByKey(text, "k", {"x": x.dtype, "k": k.dtype}) as by_key:
            ok(lib.gpuvec_copy(copied.address, first.address, x.nbytes, stream))
            inputs = [copied.address, of_keys.address]
            ok(by_key.run((N,), inputs, [out.address], GROUPS, stream=stream))
        assert out.get(results.dtype)[:GROUPS].tobytes() == results.tobytes()


@pytest.mark.parametrize("kind", ["pageable", "pinned", "device"])
@pytest.mark.parametrize("has_stream", [False, True])
@pytest.mark.parametrize("text", ["sum(x)", "argmin(x)", "max(x); sum(x)"])
def test_a_key_outside(placement, kind, has_stream, text):
    """The error names the first one, and nothing is written, unless such elements are left out."""
    x, k = values("f4", N), keys(N, GROUPS)
    k[[777, 4000]] = [GROUPS, -1]
    dtypes = {"sum(x)": ["f4"], "argmin(x)": ["i8"], "max(x); sum(x)": ["f4", "f4"]}[text]
    inside = (k >= 0) & (k < GROUPS)
    with Resources() as resources, ByKey(text, "k", {"x": "f4", "k": "i4"}) as by_key:
        stream = resources.stream() if has_stream else None
        memories = [resources.array(kind, array) for array in (x, k)]
        inputs = [memory.address for memory in memories]
        before = [np.full(GROUPS, 7, dtype) for dtype in dtypes]
        outputs = [resources.array(kind, array) for array in before]
        places = [array.address for array in outputs]
        assert by_key.run((N,), inputs, places, GROUPS, stream=stream) == Status.ERROR_VALUE
        assert "element 777 is 37" in last_error()
        for array, values_before in zip(outputs, before):
            assert array.get()[: values_before.nbytes].tobytes() == values_before.tobytes()
        ok(by_key.run((N,), inputs, places, GROUPS, flags=IGNORE_OUTSIDE, stream=stream))
        if dtypes[-1] == "f4":
            sums = expected(by_exponents, x[inside], k[inside], GROUPS, "f4")
            assert outputs[-1].get("f4")[:GROUPS].tobytes() == sums.tobytes()


@pytest.mark.parametrize("kind", ["pageable", "device"])
@pytest.mark.parametrize("axes, order", [(1, "rows"), (1, "columns"), (2, "rows"), (3, "columns")])
def test_axes_that_stay(placement, kind, axes, order):
    """Outputs of any strides have the groups in the place of the first reduced axis."""
    shape = (301, 13)
    x = values("f8", shape[0] * shape[1]).reshape(shape)
    k = keys(x.size, 5, "u1").reshape(shape)
    if order == "columns":
        x, k = np.asfortranarray(x), np.asfortranarray(k)
    lengths = {1: (5, 13), 2: (301, 5), 3: (5,)}[axes]
    parent = np.full([2 * length for length in lengths], 3.0)
    view = parent[tuple(slice(1, None, 2) for _ in lengths)]
    wanted = parent.copy()
    of_each = wanted[tuple(slice(1, None, 2) for _ in lengths)]
    for group in range(5):
        if axes == 3:
            of_each[group] = by_exponents(x[k == group])[0]
        for kept in range(0 if axes == 3 else shape[2 - axes]):
            row = (slice(None), kept) if axes == 1 else (kept, slice(None))
            sums = by_exponents(x[row][k[row] == group])[0]
            of_each[(group, kept) if axes == 1 else (kept, group)] = sums
    with Resources() as resources, ByKey("sum(x)", "k", {"x": "f8", "k": "u1"}) as by_key:
        memories = [resources.array(kind, np.ravel(array, "K")) for array in (x, k)]
        inputs = [(at.address, array.strides) for at, array in zip(memories, (x, k))]
        memory = resources.array(kind, parent)
        offset = view.ctypes.data - parent.ctypes.data
        out = (memory.address + offset, view.strides)
        ok(by_key.run(shape, inputs, [out], 5, axes))
        assert memory.get("f8")[: parent.size].tobytes() == wanted.tobytes()


LONG_KINDS = [("pageable",) * 3, ("pinned",) * 3, ("device", "device", "pinned")]


@pytest.mark.parametrize("kinds", LONG_KINDS, ids=", ".join)
@pytest.mark.parametrize("number", [0, 1, 3, 6])
def test_arrays_longer_than_chunks(placement, number, kinds):
    """Chunks of several streams, and of several devices, add to the same tables."""
    with Resources() as resources:
        check(resources, number, kinds, 400_003, 61)


@pytest.mark.parametrize("kind", ["pageable", "device"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_special_values(placement, kind, dtype):
    """NaN, infinities, signed zeros, subnormal and huge numbers, and groups without elements."""
    limits = np.finfo(dtype)
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, limits.smallest_subnormal, limits.max, 1.0]
    special += [-limits.max, limits.tiny, -1.0, limits.eps]
    rng = np.random.default_rng(3)
    x = np.array(special, dtype)[rng.integers(3, len(special), 4000)]
    k = rng.integers(0, 300, 4000).astype("u2")
    x[:300] = np.array(special, dtype)[rng.integers(0, len(special), 300)]
    k[:300] = np.arange(300)
    results = []
    # No group without elements has a least or a greatest one.
    for text, groups in (("sum(x); dot(x, x)", 320), ("min(x); max(x)", 300)):
        with Resources() as resources, ByKey(text, "k", {"x": dtype, "k": "u2"}) as by_key:
            memories = [resources.array(kind, array) for array in (x, k)]
            outputs = [resources.array(kind, np.zeros(groups, dtype)) for _ in range(2)]
            places = [memory.address for memory in [*memories, *outputs]]
            ok(by_key.run((x.size,), places[:2], places[2:], groups))
            results += [memory.get(dtype)[:groups] for memory in outputs]
    sums, squares, least, most = results
    for group in range(320):
        of_group = x[k == group]
        assert sums[group].tobytes() == by_rationals(of_group)[0].tobytes()
        assert squares[group].tobytes() == by_rationals(of_group, of_group)[0].tobytes()
        if of_group.size:
            assert np.array_equal(least[group], of_group.min(), equal_nan=True)
            assert np.array_equal(most[group], of_group.max(), equal_nan=True)


@pytest.mark.parametrize("kind", ["pageable", "device"])
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_groups_of_extreme_integers(placement, kind, dtype):
    """The least and the greatest integer are results; a group without elements has none."""
    limits = np.iinfo(dtype)
    x = np.array([limits.max, limits.max, limits.min, limits.min, 5], dtype)
    k = np.array([0, 0, 1, 1, 2], "i4")
    with Resources() as resources, ByKey("min(x); max(x)", "k", {"x": dtype, "k": "i4"}) as by_key:
        memories = [resources.array(kind, array) for array in (x, k)]
        outputs = [resources.array(kind, np.full(4, 7, dtype)) for _ in range(2)]
        places = [memory.address for memory in [*memories, *outputs]]
        assert by_key.run((5,), places[:2], places[2:], 4) == Status.ERROR_EMPTY
        assert all((memory.get(dtype) == 7).all() for memory in outputs)
        ok(by_key.run((5,), places[:2], places[2:], 3))
        assert all((memory.get(dtype)[:3] == x[[0, 2, 4]]).all() for memory in outputs)


@pytest.mark.parametrize("spread", ["near 1", "large", "any"])
@pytest.mark.parametrize("text, dtype", [("sum(x)", "f4"), ("sum(x)", "f8"), ("dot(x, x)", "f8")])
def test_many_groups(placement, text, dtype, spread):
    """Tables of many groups have few windows, until terms have bits in others."""
    groups = {"f4": 20_000, "f8": 4000}[dtype]
    n, rng = groups + 5003, np.random.default_rng(5)
    exponents = {"near 1": 0, "large": 90, "any": rng.integers(-60, 60, n)}[spread]
    x = (rng.standard_normal(n) * 2.0**exponents).astype(dtype)
    k = keys(n, groups)
    out = np.full(groups, 7, dtype)
    with ByKey(text, "k", {"x": dtype, "k": "i4"}) as by_key:
        ok(by_key.run((n,), [x, k], [out], groups))
    order = np.argsort(k, kind="stable")
    parts = np.split(x[order], np.searchsorted(k[order], np.arange(1, groups)))
    for group in range(0, groups, 37):
        second = None if text == "sum(x)" else parts[group]
        assert out[group].tobytes() == by_rationals(parts[group], second)[0].tobytes()


def test_device_memory_is_refused_on_cores():
    with Resources() as resources, ByKey("sum(x)", "k", {"x": "f4", "k": "i4"}) as by_key:
        if lib.gpuvec_device_count() == 0:
            pytest.skip("no GPU")
        lib.gpuvec_set_placement(Place.GPU)
        x = resources.array("device", np.ones(10, "f4"))
        k, out = np.zeros(10, "i4"), np.full(2, 7, "f4")
        try:
            lib.gpuvec_set_placement(Place.CPU)
            assert by_key.run((10,), [x.address, k], [out], 2) == Status.ERROR_PLACEMENT
            assert by_key.run((10,), [np.ones(10, "f4"), k], [x.address], 2) == (
                Status.ERROR_PLACEMENT
            )
        finally:
            lib.gpuvec_set_placement(Place.AUTO)
        assert (out == 7).all()


SCRIPT = """
        from compiled_by_key import ByKey
        from streams import Resources
        rng = np.random.default_rng(1)
"""


@needs_fake_driver
def test_several_devices_share_a_call():
    """Each has tables of its own, which the host merges."""
    run(
        SCRIPT
        + """
        lib.gpuvec_set_placement(Place.GPU)
        n, groups = 2_200_003, 50
        x, k = rng.integers(-99, 99, n).astype("f8"), rng.integers(0, groups, n, "u1")
        sums, most = np.zeros(groups), np.zeros(groups)
        with ByKey("sum(x); max(x)", "k", {"x": "f8", "k": "u1"}) as by_key:
            ok(by_key.run((n,), [x, k], [sums, most], groups))
            assert last_run().devices == 0b11, last_run().devices
            assert (sums == np.bincount(k, x, groups)).all()
            assert all(most[group] == x[k == group].max() for group in range(groups))
            k[n - 5] = groups
            assert by_key.run((n,), [x, k], [sums, most], groups) == Status.ERROR_VALUE
            assert f"element {n - 5} is {groups}" in last_error()
        """,
        DEVICES=2,
    )


@needs_fake_driver
def test_without_memory_for_tables():
    """Cores reduce arrays that they can access, and copies of others."""
    run(
        SCRIPT
        + """
        n, groups = 300_000, 200_000
        x, k = rng.integers(-99, 99, n).astype("f8"), np.arange(n, dtype="i4") % groups
        expected = np.bincount(k, x, groups)
        sums = np.full(groups, 7.0)
        with ByKey("sum(x)", "k", {"x": "f8", "k": "i4"}) as by_key, Resources() as resources:
            lib.gpuvec_set_placement(Place.GPU)
            assert by_key.run((n,), [x, k], [sums], groups) == Status.ERROR_OUT_OF_MEMORY
            assert (sums == 7).all()
            inputs = [resources.array("device", array) for array in (x, k)]
            places = [memory.address for memory in inputs]
            for place in (Place.GPU, Place.AUTO):
                lib.gpuvec_set_placement(place)
                sums[:] = 7
                ok(by_key.run((n,), places, [sums], groups))
                assert (sums == expected).all() and last_run().backend == Backend.CPU
            ok(by_key.run((n,), [x, k], [sums], groups))
            assert (sums == expected).all()
        """,
        MEMORY=12 << 20,
    )
