"""Every operation gives the right bits for every kind of argument that the package takes."""

import array
import math
import mmap
from fractions import Fraction

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from operations import FAMILY, FOR_A_GPU, Operation, named, sized

pytestmark = pytest.mark.wheel

SIZES = (0, 1, 10, 5000)


def function(operation: Operation):
    """The package's function for a row of the table."""
    return getattr(gpuvec, operation.name.split("_")[1])


def expected(operation: Operation, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The right result, which of a reduction has no axis."""
    result = operation.oracle(a, b)
    return result if operation.kind == "elementwise" else result.reshape(())


def inputs(operation: Operation, n: int, seed: int = 1) -> tuple:
    """Inputs of a row."""
    return operation.data(np.random.default_rng(seed), n)


@pytest.mark.parametrize("operation, n", sized([], SIZES), ids=str)
def test_results_in_new_arrays(placement, operation, n):
    """Without out=, a new array or a scalar of the type in the table."""
    a, b = inputs(operation, n)
    result = function(operation)(*operation.inputs(a, b))
    assert isinstance(result, np.ndarray if operation.kind == "elementwise" else np.generic)
    assert_same_bits(np.asarray(result), expected(operation, a, b))


@pytest.mark.parametrize("operation", FAMILY, ids=str)
def test_results_in_out(placement, operation):
    """With out=, the result is there, and out is returned."""
    a, b = inputs(operation, 100)
    right = expected(operation, a, b)
    for shape in {right.shape, (1,) if right.ndim == 0 else right.shape}:
        out = np.empty(shape, operation.out_dtype)
        assert function(operation)(*operation.inputs(a, b), out=out) is out
        assert_same_bits(out.reshape(right.shape), right)


@pytest.mark.parametrize("operation", [named("gpuvec_add_f32"), named("gpuvec_dot_f32")], ids=str)
def test_long_arrays(placement, operation):
    """Arrays that a GPU works on."""
    a, b = (np.resize(values, FOR_A_GPU) for values in inputs(operation, 1000))
    result = function(operation)(*operation.inputs(a, b))
    assert_same_bits(np.asarray(result), expected(operation, a, b))


def as_read_only(values: np.ndarray) -> np.ndarray:
    """A read-only array."""
    result = values.copy()
    result.flags.writeable = False
    return result


def as_broadcast_row(values: np.ndarray) -> np.ndarray:
    """A row of a read-only broadcast array."""
    return np.broadcast_to(values, (3, values.size))[1]


def as_mmap(values: np.ndarray) -> mmap.mmap:
    """Anonymous memory of bytes."""
    memory = mmap.mmap(-1, values.nbytes)
    memory[:] = values.tobytes()
    return memory


def as_array_module(values: np.ndarray) -> array.array:
    """The standard library's array."""
    codes = {"float32": "f", "float64": "d", "int32": "i", "int64": "q"}
    return array.array(codes[str(values.dtype)], values.tobytes())


def as_offset(values: np.ndarray) -> np.ndarray:
    """An array that starts one element into its memory."""
    result = np.empty(values.size + 1, values.dtype)[1:]
    result[:] = values
    return result


def as_pinned(values: np.ndarray) -> np.ndarray:
    """An array in pinned memory."""
    result = gpuvec.pinned_like(values)
    result[:] = values
    return result


class Subclass(np.ndarray):
    """An ndarray of another class."""


def as_subclass(values: np.ndarray) -> Subclass:
    """An array of a subclass, as np.memmap and np.recarray are."""
    return values.copy().view(Subclass)


def as_strict_dtype(values: np.ndarray) -> np.ndarray:
    """An array whose dtype is equal to NumPy's own and another object."""
    return values.copy().view(np.dtype(values.dtype.str, metadata={"unit": "m"}))


INPUTS = [
    as_read_only,
    as_broadcast_row,
    as_offset,
    as_pinned,
    as_subclass,
    as_strict_dtype,
    as_array_module,
    as_mmap,
    gpuvec.to_device,
    np.ndarray.tobytes,
    lambda values: bytearray(values.tobytes()),
    lambda values: memoryview(values),
    lambda values: memoryview(values.tobytes()),
]
OUTPUTS = [as_offset, as_pinned, as_subclass, as_strict_dtype, as_array_module, as_mmap]
OUTPUTS += [gpuvec.to_device, lambda values: bytearray(values.tobytes()), memoryview]


def host(result, dtype) -> np.ndarray:
    """The elements of a result of any kind."""
    if isinstance(result, gpuvec.DeviceArray):
        return result.to_host()
    return np.frombuffer(result, dtype)


@pytest.mark.parametrize("operation", [named("gpuvec_axpy_f32"), named("gpuvec_sub_i64")], ids=str)
@pytest.mark.parametrize("kind", range(len(INPUTS)))
def test_kinds_of_inputs(placement, operation, kind):
    """Any object with elements is accepted as an input, read-only or not, beside an ndarray."""
    a, b = inputs(operation, 100)
    right = expected(operation, a, b)
    out = np.empty_like(a)
    function(operation)(*operation.inputs(INPUTS[kind](a), b), out=out)
    assert_same_bits(out, right)
    function(operation)(*operation.inputs(a, INPUTS[kind](b)), out=out)
    assert_same_bits(out, right)


@pytest.mark.parametrize("operation", [named("gpuvec_scale_f64"), named("gpuvec_add_i32")], ids=str)
@pytest.mark.parametrize("kind", range(len(OUTPUTS)))
def test_kinds_of_outputs(placement, operation, kind):
    """Any writable object with elements is accepted as an output."""
    a, b = inputs(operation, 100)
    out = OUTPUTS[kind](np.zeros_like(a))
    assert function(operation)(*operation.inputs(a, b), out=out) is out
    assert_same_bits(host(out, a.dtype), expected(operation, a, b))


@pytest.mark.parametrize("operation", FAMILY, ids=str)
def test_device_arrays(placement, operation):
    """Inputs in device memory give a new DeviceArray; a reduction gives a scalar or fills one."""
    a, b = inputs(operation, 100)
    right = expected(operation, a, b)
    device = [gpuvec.to_device(values) for values in (a, b)]
    result = function(operation)(*operation.inputs(*device))
    if operation.kind == "elementwise":
        assert isinstance(result, gpuvec.DeviceArray)
        result = result.to_host()
    assert_same_bits(np.asarray(result), right)
    out = gpuvec.DeviceArray(right.shape, right.dtype)
    function(operation)(*operation.inputs(*device), out=out)
    assert_same_bits(out.to_host(), right)


def test_host_and_device_inputs_give_a_device_array(placement):
    """One input in device memory is enough, in either position."""
    a = np.arange(10, dtype=np.float64)
    for pair in ((a, gpuvec.to_device(a)), (gpuvec.to_device(a), a)):
        result = gpuvec.add(*pair)
        assert isinstance(result, gpuvec.DeviceArray)
        assert_same_bits(result.to_host(), a + a)


@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (2, 3, 4), (0, 5)])
def test_shapes(placement, shape):
    """Arrays of several axes, of one element and of none."""
    a = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    assert_same_bits(gpuvec.add(a, a), a + a)
    assert gpuvec.sum(a) == a.sum()


def test_in_place(placement):
    """The output may be either input."""
    a, b = np.arange(10.0), np.ones(10)
    assert gpuvec.sub(a, b, out=a) is a
    assert (a == np.arange(10) - 1).all()
    gpuvec.sub(a, b, out=b)
    assert (b == np.arange(10) - 2).all()


@given(st.data())
def test_exact_arithmetic_of_rationals(data):
    """Float results are the rounded exact ones; axpy rounds once."""
    width = data.draw(st.sampled_from([32, 64]))
    kind = np.dtype(f"f{width // 8}")
    elements = st.floats(-1e6, 1e6, width=width, allow_subnormal=False)
    n = data.draw(st.integers(1, 20))
    a, b = (data.draw(arrays_of.arrays(kind, n, elements=elements)) for _ in range(2))
    alpha = data.draw(elements)
    rational = [(Fraction(float(x)), Fraction(float(y))) for x, y in zip(a, b)]
    assert_rounded(gpuvec.add(a, b), [x + y for x, y in rational])
    assert_rounded(gpuvec.mul(a, b), [x * y for x, y in rational])
    assert_rounded(gpuvec.axpy(alpha, a, b), [Fraction(alpha) * x + y for x, y in rational])


def assert_rounded(results: np.ndarray, exact: list) -> None:
    """Fails unless no neighbour of a result is nearer to the exact value."""
    for result, value in zip(results, exact):
        distance = abs(Fraction(float(result)) - value)
        for towards in (-np.inf, np.inf):
            neighbour = np.nextafter(result, results.dtype.type(towards))
            assert distance <= abs(Fraction(float(neighbour)) - value)


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=50))
def test_integers_are_python_s_modulo_two_to_the_64(values):
    """Sums and dot products of int32 are exact; those of int64 wrap around."""
    a = np.array(values, np.int32)
    assert gpuvec.sum(a) == sum(values)
    wide = np.array(values, np.int64) << 20
    total = sum(int(value) ** 2 for value in wide) % 2**64
    assert int(gpuvec.dot(wide, wide)) % 2**64 == total


@pytest.mark.parametrize("alpha", [2, 2.0, np.float32(2), np.float64(2), np.int8(2), Fraction(2)])
def test_factors(alpha):
    """A factor is any real number."""
    assert (gpuvec.scale(alpha, np.ones(3)) == 2).all()
    assert (gpuvec.axpy(alpha, np.ones(3), np.ones(3)) == 3).all()
