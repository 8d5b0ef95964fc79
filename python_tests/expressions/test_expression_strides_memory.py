"""Expressions over arrays of any strides in memory of every kind: on GPUs, alone and on streams."""

import numpy as np
import pytest
from bindings import Backend, PathBit, Place, Status, last_error, last_run, lib, placed, why_cpu
from formulas import ELEMENTWISE, Compiled, Formula, values
from hypothesis import given, settings
from hypothesis import strategies as st
from on_fake_driver import needs_fake_driver
from on_fake_driver import run as run_script
from streams import QUEUED_KINDS, Resources, ok
from strided_cases import CASES
from views import Located, located

needs_gpu = pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")

SUM = Formula("a + b", {"a": "f4", "b": "f4"}, lambda a, b: a + b)
MIXES = ["device", "managed", "pinned", "device pageable", "pageable device", "pinned pageable"]


def run(formula: Formula, arrays: list[Located], out: Located, stream=None) -> None:
    """Runs a formula, and waits for the stream."""
    with Compiled(formula.text, formula.inputs) as compiled:
        given_arrays = [array.argument for array in arrays]
        shape = out.view.shape
        assert compiled.run_nd(shape, given_arrays, out.argument, 0, stream) == 0, last_error()
        if stream:
            ok(lib.gpuvec_stream_synchronize(stream))


def check_views(data: st.DataObject, formula: Formula, kinds: str, is_queued: bool) -> None:
    """Runs a formula on random views, and compares all bytes of the output's parent."""
    lengths = st.one_of(st.integers(1, 4), st.integers(1, 30))
    shapes = st.lists(lengths, min_size=1, max_size=5)
    shape = tuple(data.draw(shapes.filter(lambda shape: np.prod(shape) < 4_000)))
    kind = kinds.split() * 3
    with Resources() as resources:
        arrays = [
            located(data, resources, kind[number], shape, dtype, True)
            for number, dtype in enumerate(formula.inputs.values())
        ]
        flat = {name: array.view.ravel() for name, array in zip(formula.inputs, arrays)}
        result = formula.expected(flat).reshape(shape)
        out = located(data, resources, kind[len(arrays)], shape, result.dtype.str[1:], False)
        out.view[...] = result
        run(formula, arrays, out, resources.stream() if is_queued else None)
        out.check()
        for array in arrays:
            array.check()


@needs_gpu
@pytest.mark.parametrize("kinds", MIXES)
@pytest.mark.parametrize("formula", ELEMENTWISE, ids=str)
@given(data=st.data())
@settings(max_examples=8)
def test_views_in_memory_of_every_kind(on_gpu, formula, kinds, data):
    """Nothing but the output's elements changes."""
    check_views(data, formula, kinds, False)
    assert last_run().backend == Backend.GPU


@pytest.mark.parametrize("kind", QUEUED_KINDS)
@given(data=st.data())
@settings(max_examples=15)
def test_views_on_a_stream(placement, kind, data):
    """With placement `cpu` the call waits."""
    if kind == "device" and placement == Place.CPU:
        pytest.skip("the cores do not reach device memory")
    check_views(data, ELEMENTWISE[0], kind, True)


@needs_gpu
@pytest.mark.parametrize("kinds", ["device", "device pageable", "managed pinned device"])
@pytest.mark.parametrize("n", [1000, 5000, 70_000])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_slices_and_other_orders_of_axes(on_gpu, case, n, kinds):
    """In packs, elements apart, and tiles: whole ones and parts."""
    case.check(kinds.split() * 4, n)
    assert last_run().backend == Backend.GPU


@needs_gpu
@pytest.mark.parametrize("kinds", ["device", "device pageable"])
@pytest.mark.parametrize("shape", [(100, 70), (3, 65, 64), (33, 2, 40)], ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8", "u1", "i2", "i8", "?"])
def test_transposed_arrays_of_every_width(on_gpu, resources, dtype, shape, kinds):
    """Of three transposed inputs, and of two beside one that is the output, too."""
    random, order = np.random.default_rng(1), tuple(reversed(range(len(shape))))
    kind = kinds.split() * 3
    names = {name: dtype for name in "abc"}
    parents = [values(random, np.dtype(dtype), int(np.prod(shape))).reshape(shape) for _ in names]
    turned = [Located(resources, kind, x, x.transpose(order)) for kind, x in zip(kind, parents)]
    straight = parents[0].transpose(order).copy()
    with Compiled("where(b == c, a, c); b", names) as compiled:
        empty = [np.zeros(straight.shape, type_) for type_ in compiled.dtypes()]
        outs = [Located(resources, kind, x, x) for kind, x in zip(kind, empty)]
        calls = [(turned, outs)]
        if compiled.dtypes()[0] == np.dtype(dtype):
            place = Located(resources, kind[0], straight, straight)
            calls.append(([place, *turned[1:]], [place, outs[1]]))
        for inputs, results in calls:
            given_arrays, places = ([array.argument for array in of] for of in (inputs, results))
            assert compiled.run_nd(straight.shape, given_arrays, places) == 0, last_error()
            a, b, c = (array.view.copy() for array in inputs)
            results[0].view[...], results[1].view[...] = np.where(b == c, a, c), b
            for result in results:
                result.check()


@needs_gpu
@pytest.mark.parametrize("kinds", ["device", "pageable", "device pageable"])
@pytest.mark.parametrize("shape", [(64, 96), (63, 95), (2, 3, 4, 5, 6), (5000, 3)], ids=str)
def test_broadcasting(on_gpu, resources, shape, kinds):
    """Rows, columns, and parts of both; of packs and of odd lengths."""
    random = np.random.default_rng(1)
    kind = kinds.split() * 2
    parents = [
        random.random(shape[-1], np.float32),
        random.random((*shape[:-1], 1), np.float32),
        random.random((shape[0], *(1,) * (len(shape) - 1)), np.float32),
    ]
    whole = random.random(shape, np.float32)
    for parent in parents:
        x = Located(resources, kind[0], whole, whole)
        y = Located(resources, kind[1], parent, np.broadcast_to(parent, shape))
        sums = np.zeros(shape, np.float32)
        out = Located(resources, kind[0], sums, sums)
        run(SUM, [x, y], out)
        out.view[...] = whole + parent
        out.check()


@needs_gpu
@pytest.mark.parametrize("kind", ["device", "pageable", "managed"])
def test_arrays_in_place(on_gpu, resources, kind):
    """Halves of a matrix are swapped and negated, by fast functions, too."""
    parent = np.random.default_rng(1).random((50, 92), np.float32)
    left, right = parent[:, :46], parent[:, 91:45:-1]
    matrix = Located(resources, kind, parent, parent)
    places = [matrix.at(left), matrix.at(right)]
    with Compiled("b; -a", SUM.inputs) as compiled:
        assert compiled.run_nd(left.shape, places, places) == Status.OK, last_error()
    old = left.copy(), right.copy()
    left[...], right[...] = old[1], -old[0]
    matrix.check()
    with Compiled("exp(a)", {"a": "f4"}) as compiled:
        assert compiled.run_nd(left.shape, places[:1], places[0]) == Status.OK, last_error()
        with placed(Place.CPU):
            assert compiled.run_nd(left.shape, [left], left) == Status.OK, last_error()
    matrix.check()


@needs_gpu
def test_a_broadcast_array_is_staged_once_for_each_block(on_gpu):
    """And not for each element of the others."""
    x = np.random.default_rng(1).random((1500, 700), np.float32)
    row, out = x[3].copy(), np.empty_like(x)
    with Compiled(SUM.text, SUM.inputs) as compiled:
        status = compiled.run_nd(x.shape, [x, np.broadcast_to(row, x.shape)], out)
        assert status == Status.OK, last_error()
    np.testing.assert_array_equal(out, x + row)
    last = last_run()
    assert last.chunks > 4 and last.backend == Backend.GPU
    assert last.path == PathBit.STAGED | PathBit.MAPPED | PathBit.DMA
    assert last.bytes_staged == x.nbytes + out.nbytes + last.chunks * row.nbytes


def test_host_arrays_stay_on_cores():
    """With placement `auto` if they are short, and where the placement asks for it."""
    with Compiled(SUM.text, SUM.inputs) as compiled:
        # A GPU may soon be faster than busy cores for longer arrays.
        for place, length in ((Place.AUTO, 30), (Place.ALL, 300), (Place.CPU, 300)):
            x = np.ones((length, length), np.float32)
            with placed(place):
                assert compiled.run_nd(x.shape, [x, x.T], x.copy()) == Status.OK, last_error()
                assert last_run().backend == Backend.CPU


@needs_fake_driver
def test_a_formula_is_compiled_once_for_shapes_of_a_kind():
    """Whatever the lengths and strides; a text that is forgotten has no kernels."""
    run_script(
        """
from formulas import Compiled
from streams import Resources
lib.gpuvec_set_placement(Place.GPU)

def add(compiled, resources, shape, row):
    whole, part = (resources.memory("device", 4 * size) for size in (np.prod(shape), shape[1]))
    whole.put(np.ones(shape, np.float32))
    part.put(np.arange(shape[1], dtype=np.float32))
    arrays = [(whole.address, (4 * shape[1], 4)), (part.address, row)]
    ok(compiled.run_nd(shape, arrays, arrays[0]))
    result = whole.get(np.float32).reshape(shape)
    expected = 1 + np.broadcast_to(np.arange(shape[1]) if row[1] else np.zeros(1), shape)
    np.testing.assert_array_equal(result, expected)

def modules():
    return fake_driver.calls().count("cuModuleLoadData")

with Compiled("a + b", {"a": "f4", "b": "f4"}) as compiled, Resources() as resources:
    lib.gpuvec_init()
    for shapes, row, count in [
        ([(3, 8), (5, 16), (40, 12), (1000, 4)], (0, 4), 1),
        ([(3, 8), (7, 64)], (0, 0), 1),
        ([(3, 7), (5, 11), (100, 13)], (0, 4), 1),
    ]:
        fake_driver.plan("")
        for shape in shapes:
            add(compiled, resources, shape, row)
        assert modules() == count, (modules(), shapes)
""",
        DEVICES=1,
    )


@needs_fake_driver
def test_new_lengths_and_strides_compile_nothing():
    """A formula has a kernel for each kind of layout, and no other for any shape of that kind."""
    run_script(
        """
from itertools import product
from formulas import Compiled
from streams import Resources
from views import Located
lib.gpuvec_set_placement(Place.GPU)
random = np.random.default_rng(1)

def whole(shape):
    return random.random(shape, np.float32)

LAYOUTS = {
    "C order": lambda shape: (whole(shape),) * 2,
    "gaps": lambda shape: (parent := whole((*shape, 3)), parent[..., 1]),
    "backwards": lambda shape: (parent := whole(shape), parent[..., ::-1]),
    "broadcast": lambda shape: (parent := whole(shape[-1:]), np.broadcast_to(parent, shape)),
    "columns": lambda shape: (parent := whole((*shape[:-1], 1)), np.broadcast_to(parent, shape)),
    "transposed": lambda shape: (parent := whole(shape[::-1]), parent.T),
    "shifted": lambda shape: (
        parent := whole(np.prod(shape) + 1),
        parent[1:].reshape(shape),
    ),
}

def loads(compiled, shapes):
    "Returns how many modules are loaded by calls on arrays of all layouts."
    fake_driver.plan("")
    for shape, a, b in product(shapes, LAYOUTS.values(), LAYOUTS.values()):
        with Resources() as resources:
            x, y, out = (
                Located(resources, "device", *map(np.asarray, layout(shape)))
                for layout in (a, b, LAYOUTS["C order"])
            )
            views = [array.at(np.broadcast_to(array.view, shape)) for array in (x, y)]
            ok(compiled.run_nd(shape, views, out.argument))
            out.view[...] = x.view + y.view
            out.check()
    return fake_driver.calls().count("cuModuleLoadData")

with Compiled("a + b", {"a": "f4", "b": "f4"}) as compiled:
    first = loads(compiled, [(6, 8), (3, 5, 16), (6, 7), (3, 5, 9)])
    assert 4 <= first <= 12, first
    assert loads(compiled, [(12, 24), (2, 9, 8), (10, 11), (4, 7, 5)]) == 0
    assert loads(compiled, [(6, 8), (3, 5, 16), (6, 7), (3, 5, 9)]) == 0
""",
        DEVICES=1,
    )


@needs_fake_driver
def test_an_array_in_another_devices_memory_is_refused():
    """The error names it."""
    run_script(
        """
from formulas import Compiled
x, y = (lib.gpuvec_device_alloc(1600, device) for device in range(2))
with Compiled("a + b", {"a": "f4", "b": "f4"}) as compiled:
    arrays = [(x, (4, 80)), (y, (80, 4))]
    assert compiled.run_nd((20, 20), arrays, (y, (80, 4))) == Status.ERROR_PLACEMENT
    assert "inputs[0] is in the memory of device 0" in last_error(), last_error()
    assert "runs on device 1" in last_error(), last_error()
""",
        DEVICES=2,
    )


def test_placement_gpu_fails_without_a_gpu(on_gpu):
    """As it does for contiguous arrays."""
    if lib.gpuvec_device_count() > 0:
        pytest.skip("there is a GPU")
    x = np.ones((20, 20), np.float32)
    with Compiled(SUM.text, SUM.inputs) as compiled:
        status = compiled.run_nd(x.shape, [x, x.T], x.copy())
        contiguous = compiled.run_nd(x.shape, [x, x], x.copy())
        assert status == contiguous != Status.OK
