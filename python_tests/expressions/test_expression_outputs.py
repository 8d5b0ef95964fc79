"""Formulas with several outputs: the bits of each formula alone, for arrays of every kind."""

import ctypes

import numpy as np
import pytest
from arrays import assert_same_bits
from bindings import Backend, Place, Status, last_error, last_run, lib, placed, why_cpu
from formulas import NAMES, SCALAR, Compiled, dtype_of, values
from streams import QUEUED_KINDS, ok
from surrounded import Surrounded
from threads import in_threads

INPUTS = {
    "x": "f4",
    "v": "f4",
    "d": "f8",
    "i": "i4",
    "b": "u1",
    "m": "?",
    "k": NAMES[np.dtype("f4")] | SCALAR,
}

# Formulas with NumPy's oracle, if it has one with the same bits.
FORMULAS = {
    "x + k*v": lambda x, v, k, **_: x + k * v,
    "v - 2*x": lambda x, v, **_: v - np.float32(2) * x,
    "sqrt(d*d) / 3": lambda d, **_: np.sqrt(d * d) / 3,
    "i * 3": lambda i, **_: i * np.int32(3),
    "b + 1": lambda b, **_: b.astype("i4") + np.int32(1),
    "(x < v) & m": lambda x, v, m, **_: (x < v) & m,
    "x": lambda x, **_: x,
    "v": lambda v, **_: v,
    "k": lambda x, k, **_: np.full_like(x, k),
    "count(x < v)": lambda x, v, **_: np.int64((x < v).sum()),
    "any(m)": lambda m, **_: m.any(),
    "all(x == x)": lambda x, **_: (x == x).all(),
    "argmax(i)": lambda i, **_: np.int64(i.argmax()),
    "max(i)": lambda i, **_: i.max(),
    "sum(b)": lambda b, **_: b.sum(dtype="i8"),
    "sum(x)": None,
    "sum(x * k)": None,
    "dot(x, v)": None,
    "norm(d)": None,
    "mean(b)": None,
    "min(d)": None,
}

GROUPS = [
    ["x + k*v", "v - 2*x"],
    ["sum(x)", "dot(x, v)"],
    ["sum(x)", "x + k*v", "count(x < v)"],
    ["min(d)", "argmax(i)", "any(m)", "mean(b)", "norm(d)", "dot(x, v)", "max(i)", "sum(x * k)"],
    ["x + k*v", "sqrt(d*d) / 3", "i * 3", "b + 1", "(x < v) & m", "sum(b)", "all(x == x)", "k"],
]

# Around the lengths of vectors, packs, blocks, and chunks.
SIZES = (1, 31, 33, 257, 2049, 65_537, 300_001)


def columns(n: int) -> dict[str, np.ndarray]:
    """Returns the inputs: arrays of that length, and a scalar."""
    random = np.random.default_rng(n)
    arrays = {
        name: values(random, np.dtype(dtype), n) for name, dtype in INPUTS.items() if name != "k"
    }
    return {**arrays, "k": np.float32([0.75])}


def alone(text: str, data: dict[str, np.ndarray], n: int) -> np.ndarray:
    """Returns the result of a formula that is evaluated alone."""
    with placed(Place.CPU), Compiled(text, INPUTS) as compiled:
        result = np.empty(1 if compiled.is_reduction() else n, compiled.dtype())
        inputs = [array.ctypes.data for array in data.values()]
        ok(compiled.run(inputs, result.ctypes.data, n))
    return result


def expected(texts: list[str], data: dict[str, np.ndarray], n: int) -> list[np.ndarray]:
    """Returns the result of each formula."""
    results = []
    for text in texts:
        result, oracle = alone(text, data, n), FORMULAS[text]
        if oracle:
            with np.errstate(all="ignore"):
                assert np.array_equal(
                    result, np.atleast_1d(oracle(**data)), equal_nan=result.dtype.kind == "f"
                )
        results.append(result)
    return results


def run(texts, resources, kinds: list[str], n: int, offset: int = 0, stream=None) -> None:
    """Evaluates formulas on arrays of these kinds in turn, and checks all that was written."""
    data = columns(n)
    rights = expected(texts, data, n)
    arrays = {
        name: Surrounded(resources, kinds[number % len(kinds)], offset + number % 3, array)
        for number, (name, array) in enumerate(data.items())
        if name != "k"
    }
    outs = [
        Surrounded(resources, kinds[number % len(kinds)], offset, np.zeros_like(right))
        for number, right in enumerate(rights)
    ]
    inputs = [*(array.address for array in arrays.values()), data["k"].ctypes.data]
    with Compiled("; ".join(texts), INPUTS) as compiled:
        assert compiled.dtypes() == [right.dtype for right in rights]
        assert compiled.reductions() == [
            "(" in text and text[:2] != "(x" and text[:4] != "sqrt" for text in texts
        ]
        ok(compiled.run_outputs(inputs, [out.address for out in outs], n, stream))
    if stream:
        ok(lib.gpuvec_stream_synchronize(stream))
    for out, right in zip(outs, rights):
        out.check(right)
    for name, array in arrays.items():
        array.check(data[name])


needs_gpu = pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("texts", GROUPS, ids="; ".join)
def test_every_length(placement, resources, texts, n):
    """Lengths around those of vectors, blocks and chunks, at odd offsets."""
    run(texts, resources, ["pageable"], n, offset=n % 4)


@needs_gpu
@pytest.mark.parametrize(
    "kinds", ["pinned", "device", "managed", "device pageable", "pinned device", "registered"]
)
@pytest.mark.parametrize(
    "n", [5, 70_001, pytest.param(1_500_001, marks=pytest.mark.slow_on_fake_driver)]
)
@pytest.mark.parametrize("texts", GROUPS, ids="; ".join)
def test_every_memory_kind(resources, on_gpu, texts, n, kinds):
    """Arrays of different widths in memory of every kind and in mixes."""
    run(texts, resources, kinds.split(), n, offset=1)
    assert last_run().backend == Backend.GPU


@pytest.mark.parametrize("kind", QUEUED_KINDS)
@pytest.mark.parametrize("texts", GROUPS, ids="; ".join)
def test_streams(placement, resources, texts, kind):
    """Kernels of one call follow one another in a stream."""
    if kind == "device" and placement == Place.CPU:
        pytest.skip("the cores do not reach device memory")
    run(texts, resources, [kind], 20_003, stream=resources.stream())


@pytest.mark.parametrize("kind", ["pageable", "pinned", "managed", "device"])
@pytest.mark.parametrize("n", [1, 33, 1000, 300_001])
@pytest.mark.parametrize(
    "text", ["v; x", "sum(x); v; x; sum(v)", "v; x; max(x * v); d", "v - x; v + x; norm(d)"]
)
@pytest.mark.parametrize("is_queued", [False, True])
def test_formulas_use_the_inputs_as_they_were(placement, resources, kind, n, text, is_queued):
    """Outputs may be inputs, also of other formulas: their values may be swapped."""
    if kind == "device" and placement == Place.CPU:
        pytest.skip("the cores do not reach device memory")
    data = columns(n)
    texts = text.split("; ")
    rights = [alone(one, data, n) for one in texts]
    arrays = {name: Surrounded(resources, kind, 1, data[name]) for name in "xvdibm"}
    with Compiled(text, INPUTS) as compiled:
        places = iter([arrays["x"], arrays["v"], arrays["d"]])
        outs = [
            Surrounded(resources, kind, 2, np.zeros_like(right)) if is_one else next(places)
            for right, is_one in zip(rights, compiled.reductions())
        ]
        inputs = [*(array.address for array in arrays.values()), data["k"].ctypes.data]
        stream = resources.stream() if is_queued else None
        ok(compiled.run_outputs(inputs, [out.address for out in outs], n, stream))
        if stream:
            ok(lib.gpuvec_stream_synchronize(stream))
    for out, right in zip(outs, rights):
        out.check(right)


@pytest.mark.parametrize("kind", ["pageable", "pinned", "managed", "device"])
@pytest.mark.parametrize("is_queued", [False, True])
def test_a_result_may_be_an_inputs_first_element(placement, resources, kind, is_queued):
    """All formulas use the element as it was, and the others' results are not changed by it."""
    if kind == "device" and placement == Place.CPU:
        pytest.skip("the cores do not reach device memory")
    n = 5000
    data = columns(n)
    texts = ["max(i)", "i * 3", "sum(x)", "sum(b)", "x + k*v"]
    rights = [alone(one, data, n) for one in texts]
    arrays = {name: Surrounded(resources, kind, 1, data[name]) for name in "xvdibm"}
    others = [Surrounded(resources, kind, 0, np.zeros_like(right)) for right in rights]
    outs = [arrays["i"], others[1], arrays["x"], others[3], others[4]]
    inputs = [*(array.address for array in arrays.values()), data["k"].ctypes.data]
    with Compiled("; ".join(texts), INPUTS) as compiled:
        stream = resources.stream() if is_queued else None
        ok(compiled.run_outputs(inputs, [out.address for out in outs], n, stream))
        if stream:
            ok(lib.gpuvec_stream_synchronize(stream))
    for out, right, name in zip(outs, rights, ["i", "", "x", "", ""]):
        out.check(np.concatenate([right, data[name][1:]]) if name else right)


def test_several_threads_at_once(placement, resources):
    """Each call has states of its own."""
    in_threads(lambda number: run(GROUPS[2 + number % 3], resources, ["pageable"], 100_003))


def test_no_elements(placement):
    """Arrays are left alone; reductions have their results for no elements, if all have one."""
    total, count, out = np.float32([7]), np.int64([7]), np.float32([7])
    inputs = [None] * 6 + [columns(1)["k"].ctypes.data]
    with Compiled("x + k*v; sum(x); count(m)", INPUTS) as compiled:
        outs = [out.ctypes.data, total.ctypes.data, count.ctypes.data]
        ok(compiled.run_outputs(inputs, outs, 0))
        assert (out[0], total[0], count[0]) == (7, 0, 0)
        for wrong, addresses in [(1, [None] * 3), (2, [None, total.ctypes.data, None])]:
            assert compiled.run_outputs(inputs, addresses, 0) == Status.ERROR_NULL
            assert f"outputs[{wrong}] is NULL" in last_error()
    with Compiled("sum(x); max(v); x", INPUTS) as compiled:
        total[0] = 7
        status = compiled.run_outputs(inputs, [total.ctypes.data] * 3, 0)
        assert (status, total[0]) == (Status.ERROR_EMPTY, 7)
    with Compiled("x; v", INPUTS) as compiled:
        ok(compiled.run_outputs(inputs, [None, None], 0))


@pytest.mark.parametrize("n", [1, 3, 1000, 2**40])
def test_reductions_without_arrays(placement, n):
    """Equal elements are reduced at once, however many there are."""
    outs = [np.float32([0]), np.int64([0]), np.float32([0])]
    k = np.float32([0.75])
    with Compiled("sum(k); count(k < 1); mean(k)", {"k": INPUTS["k"]}) as compiled:
        addresses = [out.ctypes.data for out in outs]
        ok(compiled.run_outputs([k.ctypes.data], addresses, n))
    assert [out[0] for out in outs] == [np.float32(0.75 * n), n, 0.75]


def test_without_arrays_beside_an_output(placement):
    """A formula of scalars alone fills an array, and the other one reduces as many elements."""
    out, total, k = np.zeros(1001, np.float32), np.float32([0]), np.float32([0.75])
    with Compiled("k * 2; sum(k)", {"k": INPUTS["k"]}) as compiled:
        ok(compiled.run_outputs([k.ctypes.data], [out.ctypes.data, total.ctypes.data], 1000))
    assert (out == [1.5] * 1000 + [0]).all()
    assert total[0] == 750


def test_outputs_that_overlap(placement):
    """An output is exactly one input, or overlaps no array; and nothing is written otherwise."""
    block = np.arange(64, dtype=np.float32)
    before, total = block.copy(), np.float32([7])
    at = [block.ctypes.data + 4 * place for place in range(64)]
    with Compiled("x + v; x - v; sum(x)", {"x": "f4", "v": "f4"}) as compiled:
        for outs, words in [
            ([at[20], at[27], total.ctypes.data], "outputs[1] overlaps outputs[0]"),
            ([at[20], at[20], total.ctypes.data], "outputs[1] overlaps outputs[0]"),
            ([at[20], at[30], at[30]], "outputs[2] overlaps outputs[1]"),
            ([at[20], at[1], total.ctypes.data], "outputs[1] partly overlaps inputs[0]"),
            ([at[0], at[20], at[0]], "outputs[2] overlaps outputs[0]"),
            ([at[20], at[40], at[9]], "outputs[2] partly overlaps inputs[1]"),
        ]:
            status = compiled.run_outputs([at[0], at[8]], outs, 8)
            assert status == Status.ERROR_OVERLAP
            assert words in last_error(), last_error()
            assert_same_bits(block, before)
    assert total[0] == 7


def test_wrong_arguments(placement):
    """The number of outputs, an index, NULL; and functions for expressions with one output."""
    x, total = np.ones(4, np.float32), np.float32([7])
    outs = (ctypes.c_void_p * 2)(x.ctypes.data, total.ctypes.data)
    to = ctypes.addressof(outs)
    inputs = (ctypes.c_void_p * 1)(x.ctypes.data)
    given = ctypes.addressof(inputs)
    with Compiled("x + 1; sum(x)", {"x": "f4"}) as compiled:
        handle = compiled.handle
        for status, call, words in [
            (
                "VALUE",
                lambda: lib.gpuvec_expr_run(handle, given, outs[0], 4, None),
                "expr has 2 outputs: call gpuvec_expr_run_outputs",
            ),
            (
                "VALUE",
                lambda: lib.gpuvec_expr_output_type(handle),
                "call gpuvec_expr_output_type_at",
            ),
            (
                "VALUE",
                lambda: lib.gpuvec_expr_is_reduction(handle),
                "call gpuvec_expr_is_reduction_at",
            ),
            (
                "VALUE",
                lambda: lib.gpuvec_expr_output_type_at(handle, 2),
                "index is 2: pass an index below",
            ),
            (
                "VALUE",
                lambda: lib.gpuvec_expr_is_reduction_at(handle, 2**64 - 1),
                "index is 9223372036854775807",
            ),
            (
                "VALUE",
                lambda: lib.gpuvec_expr_run_outputs(handle, given, to, 1, 4, None),
                "num_outputs is 1: pass gpuvec_expr_num_outputs(expr)",
            ),
            (
                "NULL",
                lambda: lib.gpuvec_expr_run_outputs(handle, given, None, 2, 4, None),
                "outputs is NULL",
            ),
        ]:
            assert call() == Status[f"ERROR_{status}"]
            assert words in last_error(), last_error()
        assert compiled.run_outputs([x.ctypes.data], [x.ctypes.data, None], 4) == Status.ERROR_NULL
        assert "outputs[1] is NULL" in last_error()
        assert (
            compiled.run_outputs([x.ctypes.data], [None, total.ctypes.data], 4) == Status.ERROR_NULL
        )
        assert "outputs[0] is NULL" in last_error()
    assert (x == 1).all() and total[0] == 7
    assert lib.gpuvec_expr_num_outputs(handle) == Status.ERROR_HANDLE


def test_one_output(placement):
    """The functions for several outputs serve expressions with one, too."""
    x, out = np.float32([1, 2]), np.zeros(2, np.float32)
    with Compiled("x * 2", {"x": "f4"}) as compiled:
        assert lib.gpuvec_expr_num_outputs(compiled.handle) == 1
        assert (compiled.dtypes(), compiled.reductions()) == ([np.dtype("f4")], [False])
        ok(compiled.run_outputs([x.ctypes.data], [out.ctypes.data], 2))
    assert (out == [2, 4]).all()


def test_texts_of_an_expression():
    """The program has a line for each output, the PTX a kernel for each reduction and one more."""
    with Compiled("x + v; sum(x); x - v; max(v)", {"x": "f4", "v": "f4"}) as compiled:
        assert compiled.text("PROGRAM").count("output: f32") == 4
        assert compiled.text("PTX").count(".visible .entry expression(") == 3
        assert dtype_of(lib.gpuvec_expr_output_type_at(compiled.handle, 3)) == np.float32
