"""`gpuvec.var` and `gpuvec.std`: exact, with NumPy's shapes and types."""

import warnings

import gpuvec
import numpy as np
import numpy_reductions
import pytest
from arrays import assert_same_bits

FUNCTIONS = {
    "var": (gpuvec.var, numpy_reductions.variance, np.var),
    "std": (gpuvec.std, numpy_reductions.deviation, np.std),
}


@pytest.fixture(params=FUNCTIONS)
def functions(request):
    """The package's function, the exact one, and NumPy's."""
    return FUNCTIONS[request.param]


def values(n: int, dtype: str, kind: int = 0) -> np.ndarray:
    """Returns numbers close to each other, of very different sizes, very small or large."""
    plain = np.random.default_rng(n).normal(1000, 1, n)
    exponents = np.random.default_rng(n).integers(-140, 120, n)
    return [plain, np.ldexp(plain, exponents - 10), plain * 1e-42, plain * 1e35][kind].astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("n", [1, 2, 3, 31, 257, 2051])
def test_results_are_rounded_once(placement, functions, dtype, n):
    """Those of all elements, of any sizes, also as one of several formulas."""
    function, exact, _ = functions
    for kind in range(4 if dtype[0] == "f" else 1):
        a = values(n, dtype, kind)
        for ddof in (0, 1, -2, n):
            found = function(a, ddof=ddof)
            right = exact(a, ddof)
            assert_same_bits(np.atleast_1d(found), np.atleast_1d(right))
            name = function.__name__
            _, again = gpuvec.evaluate(f"max(a); {name}(a, ddof={ddof})", a=a)
            assert_same_bits(np.atleast_1d(again), np.atleast_1d(right))


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), (1, -1), None])
@pytest.mark.parametrize("keepdims", [False, True])
def test_axes_are_numpys(placement, functions, axis, keepdims):
    """Each result has the bits of its elements alone, whatever their strides."""
    function, exact, numpys = functions
    whole = values(6 * 7 * 20, "f8").reshape(6, 7, 20)
    for a in (whole, whole[::-1, ::2, 1::3], whole.T, whole.astype("f4")[1:]):
        with np.errstate(all="ignore"):
            right = numpys(a, axis=axis, keepdims=keepdims, ddof=1)
        found = function(a, axis=axis, keepdims=keepdims, ddof=1)
        assert found.shape == right.shape and found.dtype == right.dtype
        np.testing.assert_allclose(found, right, rtol=1e-2)
        axes = tuple(range(3)) if axis is None else axis
        kept = np.moveaxis(a, axes, range(-np.size(axes), 0)).reshape(found.size, -1)
        rows = np.array([exact(row, 1) for row in kept], a.dtype)
        assert_same_bits(np.ascontiguousarray(found).ravel(), rows)
        out = np.zeros(found.shape, found.dtype)
        assert function(a, out=out, axis=axis, keepdims=keepdims, ddof=1) is out
        assert_same_bits(out, np.ascontiguousarray(found).reshape(out.shape))


@pytest.mark.parametrize(
    "functions",
    ["var", pytest.param("std", marks=pytest.mark.slow_on_fake_driver)],
    indirect=True,
)
@pytest.mark.parametrize(
    "shape, axis",
    [
        pytest.param((409_600, 3), 1, marks=pytest.mark.slow_on_fake_driver),
        pytest.param((3, 409_600), 0, marks=pytest.mark.slow_on_fake_driver),
        ((2, 614_400), 1),
        ((614_400, 2), 0),
    ],
)
def test_many_results(placement, functions, shape, axis):
    """Of few elements each, and of rows that several threads or tiles share."""
    function, exact, _ = functions
    table = values(300 * 4096, "f4").reshape(shape)
    found = function(table, axis=axis)
    picked = np.linspace(0, found.size - 1, 12).astype(int)
    if table.shape[axis] > 1000:
        picked = picked[:1]
    rows = [np.ascontiguousarray(np.take(table, i, 1 - axis)) for i in picked]
    assert_same_bits(found[picked], np.array([exact(row) for row in rows], "f4"))


def test_other_outputs_of_the_pass(placement):
    """An output may be the input; results are of the elements before."""
    x = values(5000, "f8").reshape(50, 100)
    old = x.copy()
    same, deviations, sums = gpuvec.evaluate(
        "x * 2; std(x, ddof=1); sum(x)", x=x, axis=1, out=(x, None, None)
    )
    assert same is x
    assert_same_bits(x, old * 2)
    assert_same_bits(sums, gpuvec.sum(old, axis=1))
    right = np.array([numpy_reductions.deviation(row, 1) for row in old])
    assert_same_bits(deviations, right)


def test_a_result_may_be_in_its_input(placement):
    """Both sums are complete before the result is written."""
    x = values(5000, "f8")
    right = numpy_reductions.variance(x)
    gpuvec.var(x, out=x[:1])
    assert x[0] == right


def test_device_arrays_and_streams(functions):
    """Results are in the arrays' memory; with a stream they are there when the call returns."""
    function, exact, _ = functions
    a = values(3000, "f4").reshape(30, 100)
    stream = gpuvec.Stream()
    on_device = gpuvec.to_device(a)
    doubled = gpuvec.add(on_device, on_device, stream=stream)
    found = function(doubled, axis=0, stream=stream)
    assert isinstance(found, gpuvec.DeviceArray)
    right = np.array([exact(column) for column in (a + a).T], "f4")
    assert_same_bits(found.to_host(), right)
    assert function(on_device) == exact(a)


def test_results_that_numbers_lack(placement, functions):
    """NumPy's, which warns: NaN for no elements, and where 0 is divided by 0."""
    function, _, numpys = functions
    for a, ddof in [
        ([], 0),
        ([], 1),
        ([1.0], 1),
        ([1.0, 2.0], 2),
        ([1.0, 2.0], 5),
        ([3.0, 3.0], 2),
        ([1.0, np.nan], 0),
        ([1.0, np.inf], 0),
        ([-np.inf, np.inf, 2.0], 1),
    ]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            right = numpys(np.array(a), ddof=ddof)
        found = function(np.array(a), ddof=ddof)
        assert found == right or (np.isnan(found) and np.isnan(right)), (a, ddof)
    assert np.isnan(function(np.zeros((2, 0)), axis=1)).all()
    assert function(np.zeros((0, 2)), axis=1).shape == (0,)


def test_the_range_of_the_results(placement):
    """Only a result that is too large is infinite; the least ones are subnormal."""
    large = np.array([3e38, -3e38], np.float32)
    assert gpuvec.var(large) == np.inf and gpuvec.std(large) == np.float32(3e38)
    least = np.array([5e-324, -5e-324])
    assert gpuvec.var(least) == 0 and gpuvec.std(least) == 5e-324


def test_arguments_are_checked(functions):
    """As those of other functions."""
    function, _, _ = functions
    a = np.ones(3)
    with pytest.raises(TypeError, match="ddof is of type float: pass an int"):
        function(a, ddof=0.5)
    with pytest.raises(TypeError, match="complex"):
        function(a.astype(complex))
    with pytest.raises(TypeError, match="pass float64"):
        function(a, out=np.zeros((), "f4"))
    with pytest.raises(np.exceptions.AxisError):
        function(a, axis=1)
    assert function(np.float32(2)) == 0
    with pytest.raises(gpuvec.ExpressionError, match="below 2\\^31"):
        function(a, ddof=2**31)
