"""Expressions give NumPy's bits, for arrays of every length, offset and memory kind."""

import numpy as np
import pytest
from arrays import assert_same_bits
from bindings import Backend, Status, last_error, last_run, lib, why_cpu
from formulas import ELEMENTWISE, FORMULAS, REDUCTIONS, SCALAR, Compiled, Formula
from formulas import NAMES as TYPE_OF
from surrounded import Surrounded

# Around the lengths of vectors, packs, blocks, and chunks.
SIZES = (1, 3, 31, 32, 33, 255, 257, 2047, 2049, 4097, 65_537, 300_001)


def run(formula: Formula, data: dict, resources, kinds, n: int, offset: int = 0) -> None:
    """Evaluates a formula on arrays of these kinds, and checks all that was written."""
    right = formula.expected(data)
    arrays = [
        Surrounded(resources, kind, offset + number % 3, values)
        for number, (kind, values) in enumerate(zip(kinds, data.values()))
    ]
    out = Surrounded(resources, kinds[-1], offset, np.zeros_like(right))
    with Compiled(formula.text, formula.inputs) as compiled:
        status = compiled.run([array.address for array in arrays], out.address, n)
        assert status == Status.OK, last_error()
    out.check(right)
    for array, values in zip(arrays, data.values()):
        array.check(values)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("formula", FORMULAS, ids=str)
def test_every_length(placement, resources, formula, n):
    """Lengths around those of vectors, blocks and chunks, at odd offsets."""
    run(formula, formula.data(n), resources, ["pageable"] * 9, n, offset=n % 4)


@pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")
@pytest.mark.parametrize(
    "kinds", ["pinned", "device", "managed", "device pageable", "pinned device"]
)
@pytest.mark.parametrize(
    "n", [5, 70_001, pytest.param(1_500_001, marks=pytest.mark.slow_on_fake_driver)]
)
@pytest.mark.parametrize("formula", [*ELEMENTWISE[2:12:2], *REDUCTIONS[::3]], ids=str)
def test_every_memory_kind(resources, on_gpu, formula, n, kinds):
    """Arrays of different widths in memory of every kind and in mixes."""
    run(formula, formula.data(n), resources, kinds.split() * 4, n, offset=1)
    assert last_run().backend == Backend.GPU


@pytest.mark.parametrize("n", [1, 1000, 300_001])
def test_in_place(placement, n):
    """The output may be an input whose elements have its size, also of another type."""
    i = np.arange(n, dtype=np.int32)
    f = np.linspace(-5, 5, n, dtype=np.float32)
    expected = (i + f.astype(np.float64)).astype(np.float32)
    with Compiled("f32(i + f)", {"i": "i4", "f": "f4"}) as compiled:
        inputs = [i.ctypes.data, f.ctypes.data]
        assert compiled.run(inputs, i.ctypes.data, n) == Status.OK, last_error()
    assert_same_bits(i.view(np.float32), expected)


@pytest.mark.parametrize("name", sorted(str(dtype) for dtype in TYPE_OF))
def test_scalars_of_every_type(placement, name):
    """A scalar is read at the call, at any address, in its own type."""
    dtype = np.dtype(name)
    x = np.arange(1000, dtype=np.float64)
    out = np.empty_like(x)
    unaligned = np.zeros(16, np.uint8)
    declared = {"x": "f8", "k": TYPE_OF[dtype] | SCALAR}
    with Compiled("x + f64(k)", declared) as compiled:
        for value in np.array([0, 1, 100, -3 if dtype.kind in "if" else 7]).astype(dtype):
            unaligned[3 : 3 + dtype.itemsize] = np.frombuffer(value.tobytes(), np.uint8)
            inputs = [x.ctypes.data, unaligned.ctypes.data + 3]
            assert compiled.run(inputs, out.ctypes.data, x.size) == Status.OK, last_error()
            assert_same_bits(out, x + float(value))


@pytest.mark.parametrize("n", [0, 1, 1000])
def test_without_arrays(placement, n):
    """A formula of scalars alone fills the output."""
    k, out = np.float32(2.5), np.zeros(n + 1, np.float32)
    value = np.array([k])
    with Compiled("k * 2", {"k": TYPE_OF[k.dtype] | SCALAR}) as compiled:
        assert compiled.run([value.ctypes.data], out.ctypes.data, n) == Status.OK, last_error()
    assert_same_bits(out, np.array([5] * n + [0], np.float32))


def test_reductions_of_nothing(placement):
    """Sums, counts and the like have a result for no elements; smallest and largest have none."""
    results = {"sum(x)": 0, "dot(x, x)": 0, "norm(x)": 0, "count(x > 0)": 0, "any(x > 0)": 0}
    results.update({"all(x > 0)": 1, "prod(i32(x))": 1, "mean(x)": np.nan})
    results.update({"var(x)": np.nan, "std(x, ddof=-1)": np.nan})
    for text, right in results.items():
        with Compiled(text, {"x": "f4"}) as compiled:
            kind = lib.gpuvec_expr_output_type(compiled.handle)
            [dtype] = [dtype for dtype, number in TYPE_OF.items() if number == kind]
            out = np.full(1, 1 - (right == right and right), dtype)
            assert compiled.run([None], out.ctypes.data, 0) == Status.OK, last_error()
            assert compiled.run([None], None, 0) == Status.ERROR_NULL
            assert last_error() == "out is NULL: pass the address for the result"
        assert_same_bits(out, np.array([right], dtype))
    for text in ("min(x)", "max(x)", "argmin(x)", "argmax(x)"):
        with Compiled(text, {"x": "f4"}) as compiled:
            out = np.full(1, 7, np.int64)
            assert compiled.run([None], out.ctypes.data, 0) == Status.ERROR_EMPTY
            assert out[0] == 7


def test_the_largest_number_of_inputs(placement):
    """32 arrays, of every type in turn."""
    n = 100_003
    dtypes = [np.dtype(dtype) for dtype in ("i2", "f4", "u1", "i4", "i1", "f8", "u2", "u4")] * 4
    arrays = [np.arange(n).astype(dtype) % dtype.type(50) for dtype in dtypes]
    text = " + ".join(f"f64(a{i})" for i in range(32))
    out = np.empty(n)
    with Compiled(text, {f"a{i}": dtype for i, dtype in enumerate(dtypes)}) as compiled:
        inputs = [array.ctypes.data for array in arrays]
        assert compiled.run(inputs, out.ctypes.data, n) == Status.OK, last_error()
    assert_same_bits(out, np.sum([array.astype(float) for array in arrays], axis=0))
