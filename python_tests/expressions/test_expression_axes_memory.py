"""Reductions along axes in memory that a GPU reaches, alone and on streams.

The results have the bits of the call on a contiguous copy of each slice.
"""

import numpy as np
import pytest
from axes_cases import REDUCTIONS, Reduction, bits, filled, kept_shape, one_by_one
from bindings import Backend, Place, Status, last_error, last_run, lib, placed, why_cpu
from formulas import Compiled
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import QUEUED_KINDS, Resources, ok
from views import Located, located

needs_gpu = pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")

KINDS = ["device", "managed", "pinned", "device pinned"]

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
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("reduction", REDUCTIONS, ids=str)
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


@needs_gpu
def test_pageable_arrays_are_refused_with_what_to_do(on_gpu):
    """Where the placement demands a GPU, or an array is in its memory."""
    x = np.ones((4, 6), "f4")
    with Compiled("sum(x)", {"x": "f4"}) as compiled, placed(Place.GPU):
        out = np.zeros((4, 1), "f4")
        assert compiled.run_nd(x.shape, [x], out, 0b10) == Status.ERROR_PLACEMENT
        assert "pinned" in last_error()
