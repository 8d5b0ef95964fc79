"""Reductions along axes in memory that a GPU reaches, alone and on streams.

The results have the bits of the call on a contiguous copy of each slice.
"""

import numpy as np
import pytest
from axes_cases import (
    LARGE,
    REDUCTIONS,
    Reduction,
    bits,
    filled,
    kept_shape,
    one_by_one,
    result_of,
)
from bindings import Backend, PathBit, Place, Status, last_error, last_run, lib, placed, why_cpu
from formulas import NAMES, SCALAR, Compiled
from hypothesis import given, settings
from hypothesis import strategies as st
from on_fake_driver import by_turns
from streams import QUEUED_KINDS, Resources, ok
from views import Located, located

needs_gpu = pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")

KINDS = [
    "device",
    "managed",
    "pinned",
    "device pinned",
    "pageable",
    "device pageable",
    "pageable pinned managed",
    "pinned pageable device",
]

# Lengths around the widths of warps, of batches of each reduction, and of blocks.
SHAPES = [
    ((1, 5000), (1,)),
    ((3, 700), (1,)),
    ((33, 65), (1,)),
    ((700, 3), (0,)),
    ((700, 33), (0,)),
    ((5000, 1), (0,)),
    ((2, 130, 5), (1,)),
    ((9, 31, 4, 5), (0, 2)),
    ((6, 7), (0, 1)),
]


def run(reduction, arrays: list, axes: tuple, out: Located, stream=None) -> None:
    """Reduces arrays along axes, and waits for the stream."""
    with Compiled(reduction.text, reduction.inputs) as compiled:
        given_arrays = [array.argument for array in arrays]
        shape = arrays[0].view.shape
        status = compiled.run_nd(shape, given_arrays, out.argument, bits(axes), stream)
        assert status == Status.OK, last_error()
        if stream:
            ok(lib.gpuvec_stream_synchronize(stream))


def expected(reduction, arrays: list, axes: tuple) -> np.ndarray:
    """Returns the results of each slice alone, on cores."""
    with placed(Place.CPU):
        return one_by_one(reduction, [array.view for array in arrays], axes)


def empty(resources: Resources, like: np.ndarray) -> Located:
    """Returns device memory for results, with all bits set."""
    parent = np.full_like(like, 0)
    parent.view("u1")[...] = 255
    return Located(resources, "device", parent, parent)


def check_views(data: st.DataObject, reduction: Reduction, kinds: list, is_queued: bool) -> None:
    """Reduces random views, and compares all bytes of the output's parent."""
    lengths = st.lists(st.one_of(st.integers(1, 4), st.integers(1, 40)), max_size=5)
    shape = tuple(data.draw(lengths.filter(lambda shape: np.prod(shape) < 2000)))
    axes = tuple(axis for axis in range(len(shape)) if data.draw(st.booleans()))
    kind = kinds * 3
    with Resources() as resources:
        arrays = [
            located(data, resources, kind[number], shape, dtype, True, filled)
            for number, dtype in enumerate(reduction.inputs.values())
        ]
        results = expected(reduction, arrays, axes)
        out = located(
            data, resources, kind[len(arrays)], results.shape, results.dtype.str[1:], False
        )
        out.view[...] = results
        run(reduction, arrays, axes, out, resources.stream() if is_queued else None)
        out.check()
        for array in arrays:
            array.check()


@needs_gpu
@pytest.mark.parametrize("reduction, kinds", by_turns(REDUCTIONS, KINDS, 2), ids=str)
@given(data=st.data())
@settings(max_examples=6)
def test_any_axes_of_any_views(on_gpu, reduction, kinds, data):
    """Nothing but the results changes."""
    check_views(data, reduction, kinds.split(), False)


@pytest.mark.parametrize("kind", QUEUED_KINDS)
@given(data=st.data())
@settings(max_examples=10)
def test_views_on_a_stream(placement, kind, data):
    """With placement `cpu` the call waits."""
    if kind == "device" and placement == Place.CPU:
        pytest.skip("the cores do not reach device memory")
    for reduction in REDUCTIONS[::5]:
        check_views(data, reduction, [kind], True)


@needs_gpu
@pytest.mark.parametrize("shape, axes", SHAPES, ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS, ids=str)
def test_lengths_around_those_of_warps_and_blocks(on_gpu, resources, reduction, shape, axes):
    """In C order, and in Fortran order."""
    random = np.random.default_rng(5)
    parents = [
        filled(random, np.dtype(dtype), int(np.prod(shape))).reshape(shape)
        for dtype in reduction.inputs.values()
    ]
    for order in (np.ascontiguousarray, np.asfortranarray):
        ordered = [order(parent) for parent in parents]
        arrays = [
            Located(resources, "device", x if x.flags.c_contiguous else x.T, x) for x in ordered
        ]
        results = expected(reduction, arrays, axes)
        out = empty(resources, results)
        run(reduction, arrays, axes, out)
        assert last_run().backend == Backend.GPU
        out.view[...] = results
        out.check()


@needs_gpu
def test_several_reductions(on_gpu, resources):
    """Outputs of different types, on a stream and without one."""
    a = np.random.default_rng(1).normal(0, 1, (40, 5, 30)).astype("f4")
    texts = ["sum(a*2)", "argmax(a)", "any(a > 3)", "mean(a)", "norm(f64(a))"]
    array = Located(resources, "device", a, a)
    with Compiled("; ".join(texts), {"a": "f4"}) as compiled:
        for axes in [(0,), (2,), (0, 2), (1,), ()]:
            wanted = [np.zeros(kept_shape(a.shape, axes), of) for of in compiled.dtypes()]
            with placed(Place.CPU):
                assert compiled.run_nd(a.shape, [a], wanted, bits(axes)) == Status.OK
            for stream in (None, resources.stream()):
                outs = [empty(resources, x) for x in wanted]
                places = [out.argument for out in outs]
                status = compiled.run_nd(a.shape, [array.argument], places, bits(axes), stream)
                assert status == Status.OK, last_error()
                if stream:
                    ok(lib.gpuvec_stream_synchronize(stream))
                for out, x in zip(outs, wanted):
                    out.view[...] = x
                    out.check()


@needs_gpu
def test_axes_without_elements_on_a_gpu(on_gpu, resources):
    """Results of no elements are stored; a reduction without one leaves the output as it is."""
    for text, result in [
        ("sum(x)", 0),
        ("mean(x)", np.nan),
        ("all(x > 0)", True),
        ("max(x)", None),
    ]:
        with Compiled(text, {"x": "f4"}) as compiled:
            out = empty(resources, np.zeros((4, 1, 3), compiled.dtype()))
            if result is not None:
                out.view[...] = result
            status = compiled.run_nd((4, 0, 3), [0], out.argument, 0b010)
            assert status == (Status.ERROR_EMPTY if result is None else Status.OK), last_error()
            out.check()


TILED_KINDS = ["pageable", "pageable device", "pageable pinned device"]
# More elements than a tile has: long results, columns that are neighbours, and short results.
LARGE_SHAPES = [
    ((3, 300_001), (1,)),
    ((100_001, 5), (0,)),
    ((2000, 300), (0,)),
    ((500, 3, 300), (0, 2)),
    ((40, 30, 300), (1,)),
    ((40_000, 10), (1,)),
    ((2, 270_000), (0, 1)),
]


@needs_gpu
@pytest.mark.parametrize("shape, axes", LARGE_SHAPES, ids=str)
@pytest.mark.parametrize("reduction, kinds", by_turns(LARGE[::4], TILED_KINDS, 3), ids=str)
def test_pageable_arrays_tile_by_tile(on_gpu, resources, reduction, shape, axes, kinds):
    """In another order of axes, too. States of several tiles are merged, for any kind of output."""
    random, kind = np.random.default_rng(7), kinds.split() * 3
    parents = [
        filled(random, np.dtype(dtype), int(np.prod(shape))).reshape(shape)
        for dtype in reduction.inputs.values()
    ]
    for turn in (False, True):
        order = tuple(reversed(range(len(shape)))) if turn else tuple(range(len(shape)))
        turned = tuple(order.index(axis) for axis in axes)
        arrays = [Located(resources, kind, x, x.transpose(order)) for kind, x in zip(kind, parents)]
        with placed(Place.CPU):
            results = result_of(reduction, [array.view for array in arrays], turned)
        # Results with gaps.
        parent = np.zeros((*results.shape, 2), results.dtype)
        out = Located(resources, kind[len(arrays)], parent, parent[..., 1])
        run(reduction, arrays, turned, out)
        last = last_run()
        assert last.backend == Backend.GPU and last.path & PathBit.STAGED
        assert last.chunks > 1 and last.bytes_staged > 0
        out.view[...] = results
        out.check()


@needs_gpu
@pytest.mark.parametrize("kind", ["pageable", "pinned", "device"])
def test_results_in_the_place_of_an_input(on_gpu, resources, kind):
    """The first of several results replaces an input's first element when all are computed."""
    parent = np.random.default_rng(3).normal(0, 1, (500, 600))
    x = Located(resources, kind, parent, parent[::2, ::3])
    with Compiled("sum(x); max(x); argmin(x)", {"x": "f8"}) as compiled:
        outs = [empty(resources, np.zeros((1, 1), dtype)) for dtype in compiled.dtypes()]
        wanted = [np.zeros((1, 1), dtype) for dtype in compiled.dtypes()]
        with placed(Place.CPU):
            assert compiled.run_nd(x.view.shape, [x.view.copy()], wanted, 3) == Status.OK
        first = x.at(parent[:1, :1])
        places = [first, *(out.argument for out in outs[1:])]
        status = compiled.run_nd(x.view.shape, [x.argument], places, 3)
        assert status == Status.OK, last_error()
    parent[0, 0] = wanted[0][0, 0]
    x.check()
    for out, result in zip(outs[1:], wanted[1:]):
        out.view[...] = result
        out.check()


@needs_gpu
@pytest.mark.parametrize("kind", ["pageable", "pinned", "device"])
def test_many_results_in_the_places_of_elements(on_gpu, resources, kind):
    """Their states, which the host merges, have room in no slot."""
    x = resources.array(kind, values := np.random.default_rng(4).normal(0, 1, (100_001, 1)))
    largest = np.zeros_like(values)
    with Compiled("sum(x * 2); max(x)", {"x": "f8"}) as compiled:
        status = compiled.run_nd(values.shape, [x.address], [x.address, largest], 0b10)
        assert status == Status.OK, last_error()
    assert x.get().view("f8").tolist() == (2 * values).ravel().tolist()
    assert largest.tolist() == values.tolist()


@needs_gpu
def test_equal_elements_of_a_reduction_on_a_gpu(on_gpu):
    """A formula without arrays, and axes without elements, with results in pageable memory."""
    for text, inputs, shape, result in [
        ("sum(x * 2)", {"x": NAMES[np.dtype("f4")] | SCALAR}, (3, 50), 100),
        ("sum(x)", {"x": "f4"}, (3, 0), 0),
        ("mean(x)", {"x": "f8"}, (3, 0), np.nan),
    ]:
        with Compiled(text, inputs) as compiled:
            out = np.ones((3, 2), compiled.dtype())
            value = np.ones(1, "f4")
            status = compiled.run_nd(shape, [value.ctypes.data], out[:, :1], 0b10)
            assert status == Status.OK, last_error()
            np.testing.assert_array_equal(out, [[result, 1]] * 3)


@needs_gpu
def test_an_array_that_is_broadcast_is_gathered_once_for_each_tile(on_gpu):
    """And not for each element of the others."""
    x = np.random.default_rng(1).normal(0, 1, (700, 1500))
    row, out = x[3].copy(), np.zeros((700, 1))
    with Compiled("dot(x, y)", {"x": "f8", "y": "f8"}) as compiled:
        status = compiled.run_nd(x.shape, [x, np.broadcast_to(row, x.shape)], out, 0b10)
        assert status == Status.OK, last_error()
        last = last_run()
        assert last.path == PathBit.STAGED | PathBit.MAPPED | PathBit.DMA and last.chunks > 4
        assert last.bytes_staged == x.nbytes + out.nbytes + last.chunks * row.nbytes
        wanted = np.zeros_like(out)
        with placed(Place.CPU):
            compiled.run_nd(x.shape, [x, np.broadcast_to(row, x.shape)], wanted, 0b10)
    assert out.tobytes() == wanted.tobytes()


def test_placement_gpu_fails_without_a_gpu(on_gpu):
    """As it does for contiguous arrays."""
    if lib.gpuvec_device_count() > 0:
        pytest.skip("there is a GPU")
    a, out = np.ones((20, 20), "f4"), np.zeros(20, "f4")
    with Compiled("sum(a)", {"a": "f4"}) as compiled:
        assert compiled.run_nd(a.shape, [a.T], out.ctypes.data, 1) == Status.ERROR_NO_GPU
    assert not out.any()
