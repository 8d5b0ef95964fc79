"""Operators, copies and conversions of device arrays, beside NumPy's."""

import operator

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from on_fake_driver import needs_fake_driver, run

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv]
ROUNDED = [operator.floordiv, operator.mod]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
IN_PLACE = {
    operator.add: operator.iadd,
    operator.sub: operator.isub,
    operator.mul: operator.imul,
    operator.truediv: operator.itruediv,
    operator.floordiv: operator.ifloordiv,
    operator.mod: operator.imod,
}
TYPES = [np.float32, np.float64, np.int32, np.int64]
SIZES = [0, 1, 7, 1000]


def numbers(dtype, size: int, seed: int) -> np.ndarray:
    """Small numbers other than 0, whose quotients NumPy's `//` and gpuvec's round alike."""
    random = np.random.default_rng(seed)
    return (random.integers(1, 50, size) * random.choice([-1, 1], size)).astype(dtype)


def assert_same(found, wanted) -> None:
    """A device array has the type, the shape and the bits of NumPy's result."""
    assert isinstance(found, gpuvec.DeviceArray)
    assert_same_bits(found.to_host(), np.asarray(wanted))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("operation", ARITHMETIC + ROUNDED + COMPARISONS)
def test_operands_of_each_kind(placement, operation, dtype, size):
    """Device arrays, NumPy arrays, NumPy's scalars and Python's numbers, on either side."""
    a, b = numbers(dtype, size, 1), numbers(dtype, size, 2)
    x, y = gpuvec.to_device(a), gpuvec.to_device(b)
    assert_same(operation(x, y), operation(a, b))
    assert_same(operation(x, b), operation(a, b))
    assert_same(operation(a, y), operation(a, b))
    for number in (dtype(3), 3, np.float64(-2.5), True):
        assert_same(operation(x, number), operation(a, number))
        assert_same(operation(number, x), operation(number, a))
    assert_same_bits(x.to_host(), a)


@pytest.mark.parametrize("other", TYPES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("operation", IN_PLACE)
def test_operators_in_place(placement, operation, dtype, other):
    """The result is converted as NumPy's, or nothing is written."""
    a, b = numbers(dtype, 100, 3), numbers(other, 100, 4)
    x = gpuvec.to_device(a)
    y, change = x, IN_PLACE[operation]
    try:
        wanted = change(a.copy(), b)
    except TypeError:
        with pytest.raises(TypeError, match="which does not hold the results of x .* y: compute"):
            change(x, gpuvec.to_device(b))
        assert_same(x, a)
        return
    y = change(y, gpuvec.to_device(b))
    assert y is x
    assert_same(x, wanted)
    host = a.copy()
    assert change(host, gpuvec.to_device(b)) is host
    assert_same_bits(host, wanted)


def test_signs_and_logic(placement):
    """Operators of one array, and those of bools."""
    for dtype in TYPES:
        a = numbers(dtype, 33, 5)
        x = gpuvec.to_device(a)
        for operation in (operator.neg, operator.pos, operator.abs):
            assert_same(operation(x), operation(a))
        assert_same((x > 0) & (x < 9) | ~(x != 4), (a > 0) & (a < 9) | ~(a != 4))
        if np.dtype(dtype).kind == "i":
            for operation in (operator.and_, operator.or_, operator.xor):
                assert_same(operation(x, 6), operation(a, 6))
                assert_same(operation(a, x), operation(a, a))
            assert_same((x << 3) >> 1, (a << 3) >> 1)
            assert_same(1 << abs(x) % 8, 1 << abs(a) % 8)
            x ^= a
            x |= 5
            x <<= 2
            x >>= 1
            assert_same(~x, np.full(33, ~10, dtype))
    a, b = a > 0, a < 9
    x, kept = gpuvec.to_device(a), gpuvec.to_device(b)
    assert_same(b | x, b | a)
    assert_same(True & x, a)
    x &= kept
    assert_same(x, a & b)
    x |= b
    assert_same(x, (a & b) | b)


@pytest.mark.parametrize("dtype", TYPES)
def test_powers(placement, dtype):
    """By a number in the text if it is small and whole, or 0.5; else by `pow`."""
    a = np.arange(9).astype(dtype)
    x = gpuvec.to_device(a)
    for exponent in (0, 1, 2, 3, 2.0, 0.5):
        assert_same(x**exponent, a**exponent)
    if np.dtype(dtype).kind == "i":
        with pytest.raises(
            gpuvec.ExpressionError, match="integers cannot be raised to .* -1: write"
        ):
            x**-1
        with pytest.raises(gpuvec.ExpressionError, match="pow takes floats, not i"):
            2**x
        x **= 2
        assert_same(x, a**2)
        with pytest.raises(TypeError, match="which does not hold the results"):
            x **= 2.0
        return
    wanted = gpuvec.evaluate("pow(a, b)", a=a, b=2.5)
    assert_same(x**2.5, wanted)
    assert_same(x ** np.full(9, 2.5, dtype), wanted)
    assert_same(a ** gpuvec.to_device(np.full(9, 2.5, dtype)), wanted)
    assert_same(2**x, 2**a)
    assert_same(x**100, gpuvec.evaluate("pow(a, b)", a=a, b=100))
    x **= -2
    assert_same(x[1:], gpuvec.evaluate("a**-2", a=a)[1:])


def test_types_and_shapes_are_those_of_formulas(placement):
    """Mixed types, small integers, broadcasting and views; a result of no axes is on the host."""
    a, b = numbers(np.int32, 12, 6).reshape(3, 4), numbers(np.float32, 4, 7)
    x, y = gpuvec.to_device(a), gpuvec.to_device(b)
    assert_same(x * y, a * b)
    assert_same(x[:, ::2] - y[1::2], a[:, ::2] - b[1::2])
    assert_same(x.T + a.T, a.T + a.T)
    assert (x + y).dtype == np.float64
    small = gpuvec.to_device(np.int8([100, -3]))
    assert_same(small + small, np.int32([200, -6]))
    with pytest.raises(TypeError, match="dtype int8, which does not hold"):
        small += 1
    scalar = y[0] + 1
    assert (np.ndim(scalar), scalar.dtype, float(scalar)) == (0, np.float32, b[0] + 1)
    assert_same(x * y[0], a * b[0])


def test_what_operators_refuse(placement):
    """Errors are those of Python, of NumPy or of the language, which say what to write."""
    x = gpuvec.to_device(np.float32([1, 2, 3]))
    i, b = x.astype(np.int32), x > 1
    for wrong in (lambda: x + 1j, lambda: [1] + x, lambda: x < "a", lambda: x + None):
        with pytest.raises(TypeError, match="not supported|unsupported|concatenate"):
            wrong()
    assert (x == "a") is False and (x != None) is True  # noqa: E711
    with pytest.raises(ValueError, match="y has shape"):
        x + np.ones(4)
    with pytest.raises(ValueError, match="out has shape"):
        x += np.ones((3, 3))
    with pytest.raises(gpuvec.ArgumentError, match="partly overlaps"):
        x[1:] += x[:-1]
    with pytest.raises(gpuvec.ExpressionError, match="'\\+' takes numbers, not bools"):
        b + b
    with pytest.raises(gpuvec.ExpressionError, match="'&' takes .*, not f32"):
        x & x
    with pytest.raises((OverflowError, ValueError), match="int64|i32"):
        i + 2**40
    for wrong in (lambda: x @ x, lambda: np.ones(3) @ x):
        with pytest.raises(TypeError, match="does not multiply matrices|np.matmul does not take a"):
            wrong()
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    assert_same(x, np.float32([1, 2, 3]))


@pytest.mark.parametrize(
    "call, advice",
    [
        (lambda x: np.sqrt(x), r'write gpuvec.evaluate\("sqrt\(x\)", x=x\)'),
        (lambda x: np.maximum(x, 1), r'gpuvec.evaluate\("maximum\(x, y\)", x=x, y=y\)'),
        (lambda x: np.sum(x), r'write gpuvec.evaluate\("sum\(x\)", x=x\)'),
        (lambda x: np.clip(x, 0, 1), r'gpuvec.evaluate\("clip\(x, y, z\)", x=x, y=y, z=z\)'),
        (lambda x: np.nansum(x), r"in formulas, no function is named 'nansum': write sum"),
        (lambda x: np.median(x), "the language does not have it"),
        (lambda x: np.concatenate([x, x]), r"gpuvec.evaluate\(text, x=x\) computes formulas"),
        (lambda x: np.add.reduce(x), "np.add.reduce does not take a DeviceArray"),
        (lambda x: np.add(x, 1, where=True), "np.add does not take a DeviceArray"),
    ],
)
def test_functions_of_numpy_name_what_to_write(call, advice):
    """There is no second NumPy: formulas have the functions."""
    with pytest.raises(TypeError, match=f"{advice}.*x.to_host\\(\\) is a NumPy array|{advice}"):
        call(gpuvec.to_device(np.ones(3)))


def test_truth_is_that_of_one_element(placement):
    """As NumPy's."""
    for value in (0.0, 2.5, np.nan):
        assert bool(gpuvec.to_device(np.array([[value]]))) is bool(value)
        assert bool(gpuvec.to_device(np.array(value))) is bool(value)
    for length in (0, 2):
        with pytest.raises(ValueError, match=f"truth value of {length} elements is ambiguous"):
            bool(gpuvec.DeviceArray(length))


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8"])
def test_copies(placement, dtype):
    """Of any type and strides; a copy has its own memory, and C order."""
    host = np.arange(24).reshape(4, 6).astype(dtype)
    for index in (np.s_[:], np.s_[1:3], np.s_[:, ::2], np.s_[::-1, 1], np.s_[4:], np.s_[2, 3]):
        x = gpuvec.to_device(host)
        copied = x[index].copy()
        x.fill(0)
        assert gpuvec.from_dlpack(copied)._found.array.flags.c_contiguous
        assert_same(copied, np.ascontiguousarray(host[index]).reshape(copied.shape))
        assert (x.to_host() == 0).all()
    assert_same(gpuvec.to_device(host).T.copy(), np.ascontiguousarray(host.T))


@pytest.mark.parametrize("value", [0, 3, True, 2.5, np.int8(-1), np.float32(0.1)])
@pytest.mark.parametrize("dtype", ["?", "i1", "i4", "i8", "f4", "f8"])
def test_filled(placement, dtype, value):
    """With numbers of any type, as NumPy's fill; views of the types that formulas have."""
    for shape in ((0,), (1,), (3, 5), ()):
        host, x = np.zeros(shape, dtype), gpuvec.DeviceArray(shape, dtype)
        host.fill(value)
        x.fill(value)
        assert_same(x, host)
    if dtype == "i1":
        return
    host = np.zeros((3, 5), dtype)
    x = gpuvec.to_device(host)
    x[:, ::2].fill(value)
    host[:, ::2].fill(value)
    assert_same(x, host)


def test_filling_takes_numbers():
    """Arrays are assigned instead."""
    with pytest.raises(TypeError, match="value is of type ndarray: pass a number"):
        gpuvec.DeviceArray(3).fill(np.ones(3))
    with pytest.raises(TypeError, match="value is of type str"):
        gpuvec.DeviceArray(3).fill("1")


@pytest.mark.parametrize("to", TYPES + [bool])
@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "u4", "i4", "i8", "f4", "f8"])
def test_converted(placement, dtype, to):
    """To the types that formulas compute, from all that they read; a copy if it is the same."""
    host = np.arange(24).reshape(4, 6).astype(dtype)
    x = gpuvec.to_device(host)
    for index in (np.s_[:], np.s_[::2, 1:], np.s_[4:], np.s_[0, 0]):
        found = x[index].astype(to)
        assert_same(found, np.asarray(host[index]).astype(to, order="C"))
        assert found.size == 0 or found.address != x[index].address
    with pytest.raises(TypeError, match=r"dtype is int8: pass bool, .*to_host\(\).astype"):
        x.astype(np.int8)


def test_elements_are_assigned(placement):
    """Numbers and arrays, which are broadcast and converted; the form behind `x[i] += y`."""
    host = np.arange(24, dtype=np.float32).reshape(4, 6)
    x = gpuvec.to_device(host)
    row = numbers(np.int64, 6, 8)
    for index, value in [
        (np.s_[0], 1.5),
        (np.s_[1:3], row),
        (np.s_[:, ::2], np.int32([[1], [2], [3], [4]])),
        (np.s_[3, 3], 7),
        (np.s_[4:], 8),
    ]:
        x[index] = gpuvec.to_device(value) if isinstance(value, np.ndarray) else value
        host[index] = value
        assert_same(x, host)
    x[1:3] += row
    host[1:3] += row
    x[0, 0] *= 2
    host[0, 0] *= 2
    assert_same(x, host)
    with pytest.raises(ValueError, match="shape"):
        x[0] = np.ones(4)
    bytes_ = gpuvec.to_device(np.zeros(4, np.int8))
    bytes_[1:3] = np.int8([5, 6])
    bytes_[3] = 7
    assert_same(bytes_, np.int8([0, 5, 6, 7]))


def test_operators_see_work_on_streams(placement):
    """Queued work on an operand is done before."""
    x, one = (gpuvec.to_device(np.full(1 << 16, value, np.float32)) for value in (0, 1))
    stream = gpuvec.Stream()
    for _ in range(20):
        gpuvec.add(x, one, out=x, stream=stream)
    assert ((x + x).to_host() == 40).all()


@needs_fake_driver
def test_an_operator_is_one_kernel():
    """And its result stays on the GPU."""
    run("""
import gpuvec
gpuvec.set_placement("gpu")
x, y = (gpuvec.to_device(np.ones(1000, np.float32)) for _ in range(2))
def launches():
    return sum(name.startswith("cuLaunchKernel") for name in fake_driver.calls())
for operate in (lambda: x + y, lambda: 2 - x, lambda: x < y, lambda: x ** 2, lambda: -x,
                lambda: x.__iadd__(y), lambda: x.__ipow__(2), lambda: x.astype("f8"),
                lambda: x.fill(1), lambda: x[::2].copy()):
    operate()
    before = launches()
    result = operate()
    assert launches() == before + 1, (launches() - before)
    assert result is None or result.device == 0
""")


@needs_fake_driver
def test_arrays_of_lost_devices_are_shown_without_elements():
    """A text for logs and debuggers raises no error."""
    run("""
import gpuvec
from fork import in_child
gpuvec.set_placement("gpu")
x = gpuvec.to_device(np.ones(3, np.float32))
assert repr(x) == "gpuvec.DeviceArray([1., 1., 1.], shape=(3,), dtype=float32, GPU 0)"
def in_a_child():
    assert repr(x) == "gpuvec.DeviceArray(shape=(3,), dtype=float32, GPU 0)", repr(x)
in_child(in_a_child)
""")
