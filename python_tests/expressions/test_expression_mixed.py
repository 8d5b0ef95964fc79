"""Reductions along axes beside elementwise formulas, in one call.

Elementwise results are those of NumPy; each reduction has the result of the call on a contiguous
copy of its slice, of the inputs as they were before the call.
"""

from __future__ import annotations

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from axes_cases import Reduction, bits, filled, one_by_one, result_of
from bindings import Backend, PathBit, Place, Status, last_error, last_run, lib, placed, why_cpu
from formulas import Compiled
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import QUEUED_KINDS, Resources, ok
from views import Located, located

needs_gpu = pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")

INPUTS = {"x": "f4", "y": "f8"}
TOTAL = Reduction("sum", "x", {"x": "f4"})
PLACE = Reduction("argmax", "y", {"y": "f8"})
PRODUCT = Reduction("dot", "f64(x), y", INPUTS, lambda x, y: (x.astype("f8"), y))
TEXT = f"{TOTAL.text}; x*2 - 1; {PLACE.text}; y + x; {PRODUCT.text}"


def expected(x: np.ndarray, y: np.ndarray, axes: tuple) -> list[np.ndarray]:
    """Returns the results of the formulas of TEXT: reduced axes have the length 1."""
    with placed(Place.CPU), np.errstate(all="ignore"):
        elements = [x * np.float32(2) - np.float32(1), y + x]
        elements = [np.where(np.isnan(each), each.dtype.type(np.nan), each) for each in elements]
        return [
            one_by_one(TOTAL, [x], axes),
            elements[0],
            one_by_one(PLACE, [y], axes),
            elements[1],
            one_by_one(PRODUCT, [x, y], axes),
        ]


def check_views(data: st.DataObject, kinds: list, is_queued: bool) -> None:
    """Calls on random views, some outputs in place, and compares all bytes of all parents."""
    lengths = st.lists(st.one_of(st.integers(1, 4), st.integers(1, 40)), max_size=5)
    shape = tuple(data.draw(lengths.filter(lambda shape: np.prod(shape) < 2000)))
    axes = tuple(axis for axis in range(len(shape)) if data.draw(st.booleans()))
    kind = iter(kinds * 7)
    with Resources() as resources:
        # An input that is not broadcast may be an output.
        in_place = [data.draw(st.booleans()) for _ in INPUTS]
        arrays = [
            located(data, resources, next(kind), shape, dtype, not is_output, filled)
            for dtype, is_output in zip(INPUTS.values(), in_place)
        ]
        results = expected(*(array.view for array in arrays), axes)
        outs = [
            array if is_output else located(data, resources, next(kind), shape, dtype, False)
            for array, is_output, dtype in zip(arrays, in_place, INPUTS.values())
        ]
        reduced = [
            located(data, resources, next(kind), result.shape, result.dtype.str[1:], False)
            for result in results[::2]
        ]
        outs = [reduced[0], outs[0], reduced[1], outs[1], reduced[2]]
        stream = resources.stream() if is_queued else None
        with Compiled(TEXT, INPUTS) as compiled:
            places = [[each.argument for each in of] for of in (arrays, outs)]
            assert compiled.run_nd(shape, *places, bits(axes), stream) == Status.OK, last_error()
            if stream:
                ok(lib.gpuvec_stream_synchronize(stream))
        for out, result in zip(outs, results):
            out.view[...] = result
        for array in [*arrays, *outs]:
            array.check()


@pytest.mark.any_driver
@given(data=st.data())
@settings(max_examples=150)
def test_any_axes_of_any_views(on_cpu, data):
    """In new arrays and in place; nothing but the outputs changes."""
    check_views(data, ["pageable"], False)


@needs_gpu
@pytest.mark.parametrize(
    "kinds",
    ["device", "managed", "pinned", "pageable", "device pageable", "pageable pinned device"],
)
@given(data=st.data())
@settings(max_examples=25)
def test_any_memory(on_gpu, kinds, data):
    """On a GPU: in place, mapped, copied and staged."""
    check_views(data, kinds.split(), False)


@pytest.mark.parametrize("kind", QUEUED_KINDS)
@given(data=st.data())
@settings(max_examples=20)
def test_streams(placement, kind, data):
    """Kernels of one call follow each other in the order of the stream."""
    if kind == "device" and placement == Place.CPU:
        pytest.skip("the cores do not reach device memory")
    check_views(data, [kind], True)


CASES = [
    ((300, 1100), (0,)),
    ((300, 1100), (1,)),
    ((2, 40_000), (1,)),
    ((40_000, 3), (0,)),
    ((3, 40_000), (0,)),
    ((7, 30, 11, 60), (1, 3)),
    ((5, 4000, 6), (1,)),
    ((600, 500), (0, 1)),
]


@pytest.mark.parametrize("shape, axes", CASES, ids=str)
@pytest.mark.parametrize("kind", ["pageable", "pageable pinned"])
def test_many_blocks_and_tiles(placement, resources, shape, axes, kind):
    """In C order, in Fortran order and with gaps; x and y are replaced in place."""
    random, kinds = np.random.default_rng(5), kind.split() * 7
    n = int(np.prod(shape))
    for change in (
        lambda array: array.reshape(shape),
        lambda array: array.reshape(shape[::-1]).T,
        lambda array: np.repeat(array.reshape(shape), 2, axis=-1)[..., ::2],
    ):
        arrays = []
        for dtype, of in zip(INPUTS.values(), kinds):
            view = change(filled(random, np.dtype(dtype), n))
            parent = view if view.base is None else view.base
            arrays.append(Located(resources, of, parent, view))
        x, y = (array.view for array in arrays)
        with placed(Place.CPU), np.errstate(all="ignore"):
            elements = [x * np.float32(2) - np.float32(1), y + x]
            elements = [np.where(np.isnan(z), z.dtype.type(np.nan), z) for z in elements]
            results = [
                result_of(TOTAL, [x], axes),
                result_of(PLACE, [y], axes),
                result_of(PRODUCT, [x, y], axes),
            ]
        reduced = [
            Located(resources, kinds[2 + at], zeros, zeros)
            for at, zeros in enumerate(map(np.zeros_like, results))
        ]
        outs = [reduced[0], arrays[0], reduced[1], arrays[1], reduced[2]]
        with Compiled(TEXT, INPUTS) as compiled:
            places = [[each.argument for each in of] for of in (arrays, outs)]
            assert compiled.run_nd(shape, *places, bits(axes)) == Status.OK, last_error()
        if placement == Place.GPU:
            last = last_run()
            assert last.backend == Backend.GPU and last.path & PathBit.STAGED and last.chunks > 1
        for array, elements_of in zip(arrays, elements):
            array.view[...] = elements_of
            array.check()
        for out, result in zip(reduced, results):
            out.view[...] = result
            out.check()


def test_threads_change_no_bit():
    """With placement `all` the results are those of one thread, in place, too."""
    x = filled(np.random.default_rng(7), np.dtype("f4"), 2000 * 700).reshape(2000, 700)
    for axes in (0, 1, None):
        for array in (x, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
            with placed(Place.CPU):
                wanted = gpuvec.evaluate("x * 2; sum(x); argmin(x)", x=array, axis=axes)
            with placed(Place.ALL):
                given_x = array.copy(order="K")
                out = (given_x, None, None)
                found = gpuvec.evaluate("x * 2; sum(x); argmin(x)", x=given_x, axis=axes, out=out)
            for got, right in zip(found, wanted):
                assert np.asarray(got).tobytes() == np.asarray(right).tobytes()


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (1,), (), (2, 1, 0)])
def test_shapes_in_python(placement, axis, keepdims):
    """New results have NumPy's shapes; inputs are broadcast, and have any order of axes."""
    random = np.random.default_rng(3)
    whole = random.normal(0, 1, (6, 5, 7)).astype("f4")
    row = random.normal(0, 1, (5, 1)).astype("f4")
    for x in (whole, np.asfortranarray(whole), whole[::-1, :, ::2], whole.transpose(2, 0, 1)):
        b = row if x.shape[1] == 5 else np.float32(2)
        texts = "x * b; max(x); x - b; argmin(x)"
        options = {"axis": axis, "keepdims": keepdims}
        product, greatest, difference, place = gpuvec.evaluate(texts, x=x, b=b, **options)
        assert_same_bits(product, x * b)
        assert_same_bits(difference, x - b)
        assert_same_bits(np.asarray(greatest), np.asarray(x.max(**options)))
        alone = gpuvec.evaluate("argmin(x)", x=x, **options)
        assert_same_bits(np.asarray(place), np.asarray(alone))
        changed = x.copy(order="K")
        given_out = gpuvec.evaluate("x * b; sum(x)", x=changed, b=b, out=(changed, None), **options)
        assert given_out[0] is changed
        assert_same_bits(changed, x * b)
        assert_same_bits(
            np.asarray(given_out[1]), np.asarray(gpuvec.evaluate("sum(x)", x=x, **options))
        )


def test_all_elements_of_arrays_that_are_not_contiguous(placement):
    """Scalars beside elements, without an axis; the sum is the exact one."""
    x = np.arange(60, dtype="f8").reshape(6, 10)[::2, 1::3]
    doubled, total, mean = gpuvec.evaluate("2*x; sum(x); mean(x)", x=x)
    assert_same_bits(doubled, 2 * x)
    assert (total, mean) == (x.sum(), x.mean()) and type(total) is np.float64


def test_arrays_on_a_gpu(placement):
    """New results are where the inputs are, also on a stream."""
    x = np.random.default_rng(1).normal(0, 1, (30, 40)).astype("f4")
    stream = gpuvec.Stream()
    there = gpuvec.to_device(x)
    for options in ({}, {"stream": stream}):
        halves, greatest = gpuvec.evaluate("x / 2; max(x)", x=there, axis=0, **options)
        stream.synchronize()
        assert type(halves) is type(greatest) is gpuvec.DeviceArray
        assert_same_bits(halves.to_host(), x / np.float32(2))
        assert_same_bits(greatest.to_host(), x.max(axis=0))


def test_no_elements(placement):
    """Elementwise outputs without elements are left alone, at any address."""
    with Compiled("x + 1; sum(x); mean(x)", {"x": "f8"}) as compiled:
        total, mean = np.full((4, 1, 3), 7.0), np.full((4, 1, 3), 7.0)
        status = compiled.run_nd((4, 0, 3), [0], [0, total, mean], 0b010)
        assert status == Status.OK, last_error()
        assert not total.any() and np.isnan(mean).all()
        assert compiled.run_nd((0, 5), [0], [0, 0, 0], 0b10) == Status.OK
    with Compiled("x + 1; min(x)", {"x": "f8"}) as compiled:
        least = np.full((4, 1), 7.0)
        assert compiled.run_nd((4, 0), [0], [0, least], 0b10) == Status.ERROR_EMPTY
        assert (least == 7).all()


def test_values_that_are_the_same_for_all_elements(placement):
    """Formulas that read no array, beside others that are not contiguous."""
    out, total = np.zeros((3, 70, 2))[..., 0], np.zeros((3, 1))
    with Compiled("0.5; sum(0.25)", {}) as compiled:
        assert compiled.run_nd((3, 70), [], [out, total], 0b10) == Status.OK, last_error()
    assert (out == 0.5).all() and (total == 17.5).all()
    x = np.arange(12.0).reshape(3, 4)
    three, count = gpuvec.evaluate("x*0 + 3; count(x >= 0)", x=x.T, axis=0)
    assert (three == 3).all() and (count == 4).all()


def test_results_in_the_place_of_an_input(placement):
    """The sum of all replaces the first element after other outputs have read it."""
    parent = np.random.default_rng(3).normal(0, 1, (500, 600))
    x = parent[::2, ::3]
    old, out = x.copy(), np.zeros_like(x)
    with Compiled("sum(x); x + 1; max(x)", {"x": "f8"}) as compiled:
        greatest = np.zeros((1, 1))
        status = compiled.run_nd(x.shape, [x], [x[:1, :1], out, greatest], 3)
        assert status == Status.OK, last_error()
    assert_same_bits(out, old + 1)
    total = gpuvec.sum(old)
    assert (x[0, 0], greatest[0, 0]) == (total, old.max())
    # The results of rows replace what is the same for all elements of each.
    column, out = np.arange(300.0).reshape(300, 1), np.zeros((300, 900))
    with Compiled("sum(x); x + y; sum(y)", {"x": "f8", "y": "f8"}) as compiled:
        y, total = np.ones((900, 300)).T, np.zeros((300, 1))
        given_x = np.broadcast_to(column, y.shape)
        status = compiled.run_nd(y.shape, [given_x, y], [column, out, total], 2)
        assert status == Status.OK, last_error()
    old = np.arange(300.0).reshape(300, 1)
    assert_same_bits(column, 900 * old)
    assert_same_bits(out, old + np.ones((300, 900)))
    assert (total == 900).all()


def test_overlaps_are_refused(on_cpu):
    """Elementwise outputs are an input as a whole, or overlap none; nothing is written."""
    x, total = np.ones((6, 8)), np.zeros((1, 8))
    with Compiled("x + 1; sum(x)", {"x": "f8"}) as compiled:
        for out in (x[::-1], x[:, ::-1]):
            assert compiled.run_nd(x.shape, [x], [out, total], 1) == Status.ERROR_OVERLAP
        inside = x[:1]
        assert compiled.run_nd(x.shape, [x], [x, inside], 1) == Status.ERROR_OVERLAP
        repeated = np.broadcast_to(np.zeros(8), x.shape)
        assert compiled.run_nd(x.shape, [x], [repeated, total], 1) != Status.OK
    assert (x == 1).all() and not total.any()


@needs_gpu
def test_each_element_crosses_the_bus_once(on_gpu):
    """Each way, for all outputs of the call, whatever their number."""
    x = np.random.default_rng(1).normal(0, 1, (700, 3000))[:, ::2]
    out, total = np.zeros(x.shape), np.zeros((700, 1))
    with Compiled("x * 2; sum(x)", {"x": "f8"}) as compiled:
        assert compiled.run_nd(x.shape, [x], [out, total], 2) == Status.OK, last_error()
    last = last_run()
    assert last.chunks > 4 and last.bytes_staged == 2 * out.nbytes + total.nbytes
    assert_same_bits(out, x * 2)
