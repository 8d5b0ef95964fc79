"""The extension module passes the usual arrays and values, on the fast path."""

import gc
import sys

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from gpuvec._expressions import Expression
from gpuvec._library import native

pytestmark = [
    pytest.mark.wheel,
    pytest.mark.skipif(native is None, reason="there is no extension module"),
]

A = np.arange(24, dtype=np.float32).reshape(4, 6) / 7
B = A[::-1] + 3
LAYOUTS = [A, A.T, A[::-1, ::2], A[1], A[:, 3], A[:1], A[:, None]]


class Exporter:
    """An array of another library, known by DLPack alone, with its version 1.0 or before."""

    def __init__(self, array, is_versioned: bool) -> None:
        self.array, self.is_versioned = array, is_versioned
        self.exports = 0

    def __dlpack_device__(self):
        """Return the device."""
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None):
        """Export the array."""
        self.exports += 1
        version = max_version if self.is_versioned else None
        return self.array.__dlpack__(stream=stream, max_version=version)


class Interface:
    """An array of another library, known by its CUDA array interface alone."""

    def __init__(self, array) -> None:
        self.owner, self.__cuda_array_interface__ = array, dict(array.__cuda_array_interface__)


@pytest.fixture
def only_fast(monkeypatch):
    """Makes the general path fail."""

    def refuse(*arguments, **_):
        raise AssertionError(f"the general path was called with {arguments}")

    monkeypatch.setattr(Expression, "_generally", refuse)


def host(array):
    """Returns the elements of a result on the host."""
    return array.to_host() if isinstance(array, gpuvec.DeviceArray) else np.asarray(array)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda one: f"{one.shape}{one.strides}")
def test_device_arrays(only_fast, placement, layout):
    """Results are new DeviceArrays there, with NumPy's values."""
    a = gpuvec.to_device(layout)
    got = gpuvec.evaluate("a*b - a", a=a, b=a)
    assert isinstance(got, gpuvec.DeviceArray) and got.device == a.device
    assert_same_bits(got.to_host(), layout * layout - layout)
    assert gpuvec.evaluate("max(a)", a=a) == layout.max()


def test_views_of_device_arrays(only_fast, placement):
    """The axes of results have NumPy's order in memory."""
    whole = gpuvec.to_device(A)
    views = [lambda x: x.T, lambda x: x[::-1, ::2], lambda x: x[1]]
    for view in views:
        got, wanted = gpuvec.add(view(whole), view(whole)), view(A) + view(A)
        assert got.strides == wanted.strides
        assert_same_bits(got.to_host(), wanted)
    assert gpuvec.add(whole, A[0]).shape == A.shape


@pytest.mark.parametrize("axis", [0, 1, -1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_of_device_arrays_along_axes(only_fast, placement, axis, keepdims):
    for x in (gpuvec.to_device(A), gpuvec.to_device(A.T).T, gpuvec.to_device(A)[::-1, ::2]):
        got = gpuvec.max(x, axis=axis, keepdims=keepdims)
        wanted = x.to_host().max(axis=axis, keepdims=keepdims)
        assert got.shape == wanted.shape and np.array_equal(host(got), wanted)
        assert isinstance(got, gpuvec.DeviceArray) == bool(wanted.shape)


@pytest.mark.parametrize("is_versioned", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda one: f"{one.shape}{one.strides}")
def test_arrays_by_dlpack(only_fast, is_versioned, layout):
    """Each is exported once for a call; results are written where they are, in host memory too."""
    a, out = Exporter(layout.copy("K"), is_versioned), np.zeros_like(layout)
    assert_same_bits(gpuvec.add(a, layout), layout + layout)
    assert a.exports == 1
    product = gpuvec.Expression("a*b", a=np.float32, b=np.float32)
    to = Exporter(out, is_versioned)
    assert product(a=a, b=layout, out=to) is to
    assert_same_bits(out, layout * layout)


def test_arrays_by_the_cuda_array_interface():
    x = gpuvec.to_device(A)
    if x.device is None:
        pytest.skip("there is no device memory")
    for view in (x, x.T, x[::-1, ::2]):
        wanted = view.to_host() * 2
        got = gpuvec.add(Interface(view), Interface(view))
        assert isinstance(got, gpuvec.DeviceArray) and got.device == 0
        assert_same_bits(got.to_host(), wanted)
    gpuvec.add(Interface(x), Interface(x), out=Interface(x))
    assert_same_bits(x.to_host(), A + A)


def test_queued_work_comes_first(placement):
    """An array that a stream still writes is waited for."""
    x = gpuvec.to_device(np.ones(1000, np.float32))
    stream = gpuvec.Stream()
    for _ in range(5):
        gpuvec.add(x, x, out=x, stream=stream)
    assert float(gpuvec.sum(x)) == 32_000


def test_several_formulas(only_fast):
    """They return a tuple of new or of the caller's arrays, also along axes and of any strides."""
    a, b = A, B[:1]
    total, difference = gpuvec.evaluate("a + b; a - b", a=a, b=b)
    assert_same_bits(total, a + b)
    assert_same_bits(difference, a - b)
    out = np.zeros((6, 4), np.float32).T
    results = gpuvec.evaluate("a*b; a", a=a, b=B, out=(out, None))
    assert results[0] is out
    assert_same_bits(out, a * B)
    assert_same_bits(results[1], a)
    least, greatest = gpuvec.evaluate("min(a); max(a)", a=a.T, axis=0)
    assert_same_bits(least, a.min(axis=1))
    assert_same_bits(greatest, a.max(axis=1))
    product, largest = gpuvec.evaluate("a*a; max(a)", a=a)
    assert largest == a.max()
    assert_same_bits(product, a * a)
    assert gpuvec.evaluate(("a",), a=a)[0].shape == a.shape


SCALARS = [2, 2.5, True, np.float32(0.1), np.float64(0.1), np.int8(-3), np.uint16(65_535)]
SCALARS += [np.int64(-(2**40)), np.uint32(2**32 - 1), np.int32(-7), -(2**31)]


@pytest.mark.parametrize("k", SCALARS, ids=lambda k: f"{type(k).__name__} {k}")
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
def test_single_values(only_fast, k, dtype):
    """They have NumPy's types and values."""
    a = np.arange(10).astype(dtype)
    got, wanted = gpuvec.evaluate("k + a", k=k, a=a), k + a
    assert got.dtype == wanted.dtype
    assert_same_bits(got, wanted)


def test_calls_keep_no_references(placement):
    """Arrays of any kind, and single values, belong to the caller again."""
    x, a, out = gpuvec.to_device(A), Exporter(A, True), np.zeros_like(A)
    shared = x, a, out, SCALARS[3], gpuvec.DeviceArray, A.dtype, None
    calls = [
        lambda: gpuvec.add(x, x),
        lambda: gpuvec.sum(x, axis=0),
        lambda: gpuvec.add(a, a, out=out),
        lambda: gpuvec.evaluate("a + k; a", a=A, k=SCALARS[3], out=(out, None)),
        lambda: gpuvec.evaluate("a + k", a=a, k=SCALARS[3]),
    ]
    for call in calls:
        call()
    gc.collect()
    before = [sys.getrefcount(one) for one in shared]
    for call in 200 * calls:
        call()
    after = [sys.getrefcount(one) for one in shared]
    assert all(abs(late - early) < 100 for early, late in zip(before, after)), (before, after)


def test_what_is_wrong_has_the_general_ways_errors():
    """Subclasses, other types and read-only results are told as before."""
    masked = np.ma.masked_array(A, A > 1)
    with pytest.raises(TypeError, match="masked"):
        gpuvec.add(masked, masked)
    with pytest.raises(TypeError, match="float64"):
        gpuvec.add(Exporter(A.astype("f8"), True), A)
    fixed = A.copy()
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        gpuvec.add(A, A, out=Exporter(fixed, True))
    with pytest.raises(OverflowError):
        gpuvec.evaluate("k + a", k=2**70, a=A)
    with pytest.raises(KeyboardInterrupt):
        gpuvec.add(Interrupted(), A)


class Interrupted(Exporter):
    """Ctrl-C comes while it is exported, the first time."""

    def __init__(self) -> None:
        super().__init__(A, True)

    def __dlpack__(self, **keywords):
        """Export the array, or be interrupted."""
        if not self.exports:
            self.exports += 1
            raise KeyboardInterrupt
        return super().__dlpack__(**keywords)
