"""The extension module, which takes calls on NumPy arrays to the library; Pythons without it."""

import gc
import os
import shutil
import sys
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Optional

import gpuvec
import numpy as np
import pytest
from bindings import LIBRARY, ROOT
from gpuvec import _library
from programs import library_environment, run, run_python

pytestmark = pytest.mark.wheel

has_limited_api = ".abi3.so" in EXTENSION_SUFFIXES and sys.version_info >= (3, 10)


@pytest.mark.skipif(not has_limited_api, reason="the module is for CPython 3.10 and newer")
def test_the_extension_module_is_loaded():
    """A test of the package is one of the module, too."""
    assert _library.native is not None


def calls(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> list[Callable[[], object]]:
    """Calls that succeed and calls that fail, with an output and without."""
    formula = gpuvec.Expression("a * b + k", a=a.dtype, b=a.dtype, k=float)
    square = a.reshape(10, 10)
    product = gpuvec.Expression("sum(a * b)", a=a.dtype, b=a.dtype)
    return [
        lambda: gpuvec.add(a, b),
        lambda: gpuvec.add(a, b, out=out),
        lambda: gpuvec.axpy(2, a, b, out=out),
        lambda: gpuvec.dot(a, b),
        lambda: gpuvec.max(a),
        lambda: gpuvec.add(a, b, out=b[1:]),
        lambda: gpuvec.add(a[:-1], b[:-1], out=a[1:]),
        lambda: gpuvec.min(a[:0]),
        lambda: formula(a=a, b=b, k=0.5),
        lambda: formula(a=a, b=b, k=0.5, out=out),
        lambda: formula(a=a[:-1], b=b[:-1], k=0.5, out=a[1:]),
        lambda: product(a=a, b=b),
        lambda: gpuvec.add(a[::2], b[::2]),
        lambda: gpuvec.add(square.T, a[:10], out=out.reshape(10, 10)),
        lambda: gpuvec.add(square, square, out=square.T),
        lambda: gpuvec.sum(square, axis=0),
        lambda: gpuvec.sum(square.T, axis=(-1,), keepdims=True),
        lambda: gpuvec.sum(square, axis=2),
        lambda: formula(a=square, b=b[:10], k=0.5),
    ]


@pytest.mark.skipif(not has_limited_api, reason="the module is for CPython 3.10 and newer")
def test_the_module_takes_arrays_of_any_strides(on_cpu, monkeypatch):
    """Results are those of the Python code, which takes arrays of subclasses."""
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    parts = [a, a.T, a[::-1, ::2], np.asfortranarray(a), np.broadcast_to(a[0], (3, 6)), a[0, 1:]]

    class Derived(np.ndarray):
        """Arrays that the module does not take."""

    def results(arrays: list[np.ndarray], stream: Optional[gpuvec.Stream]) -> list[np.ndarray]:
        """Results of all arrays."""
        return [
            result
            for x in arrays
            for result in (
                gpuvec.add(x, x[:1], stream=stream),
                gpuvec.axpy(0.1, x, x[..., :1], stream=stream),
                gpuvec.max(x, axis=-1, stream=stream),
                gpuvec.sum(x, axis=0, keepdims=True, stream=stream),
                gpuvec.evaluate("x*k - 1", x=x, k=0.1, stream=stream),
                gpuvec.evaluate("argmin(x)", x=x, axis=-1, stream=stream),
                gpuvec.evaluate("x - mean(x)", x=x, stream=stream),
                *gpuvec.evaluate("2*x; max(x)", x=x, axis=0, stream=stream),
            )
        ]

    expected = results([x.view(Derived) for x in parts], None)
    monkeypatch.setattr(gpuvec.Expression, "_generally", None)
    for stream in (None, gpuvec.Stream()):
        for result, wanted in zip(results(parts, stream), expected):
            assert type(result) is type(wanted)
            np.testing.assert_array_equal(result, wanted)
            assert result.strides == wanted.strides


@pytest.mark.parametrize("number", range(19))
def test_calls_keep_no_references(number):
    """Arguments, their types, and what makes exceptions belong to the caller again."""
    a, b, out = (np.ones(100, np.float32) for _ in range(3))
    call = calls(a, b, out)[number]
    shared = a, b, out, a.dtype, np.ndarray, np.empty, None, gpuvec.ArgumentError

    def attempt() -> None:
        try:
            call()
        except (ValueError, gpuvec.Error):
            pass

    attempt()
    # Garbage of earlier tests holds references to None.
    gc.collect()
    before = [sys.getrefcount(one) for one in shared]
    for _ in range(1_000):
        attempt()
    after = [sys.getrefcount(one) for one in shared]
    assert all(abs(late - early) < 100 for early, late in zip(before, after)), (before, after)


@pytest.mark.skipif("GPUVEC_DIST" in os.environ, reason="the wheel has the module inside")
def test_the_package_works_with_an_extension_module_that_does_not_load(tmp_path):
    """One of another processor, or one that does not know this NumPy's arrays."""
    shutil.copy(LIBRARY, tmp_path / "libgpuvec.so")
    (tmp_path / "libgpuvec_python.so").write_bytes(b"not a module")
    script = "import gpuvec, numpy; print(gpuvec._library.native, gpuvec.sum(numpy.ones(7)))"
    output = run_python(script, GPUVEC_LIB=str(tmp_path / "libgpuvec.so"))
    assert output.split() == ["None", "7.0"]


@pytest.mark.long
@pytest.mark.skipif("GPUVEC_DIST" in os.environ, reason="the wheel has the module inside")
def test_the_package_works_without_the_extension_module(tmp_path):
    """Beside a library that was copied alone."""
    library = str(tmp_path / "libgpuvec.so")
    shutil.copy(LIBRARY, library)
    script = "import gpuvec._library as library; print(library.native, library.library_path())"
    assert run_python(script, GPUVEC_LIB=library).split() == ["None", library]
    names = "operations", "arguments", "nd_shapes", "nd_values"
    tests = [f"python_tests/package/test_{name}.py" for name in names]
    pytest_alone = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not long",
    ]
    run([*pytest_alone, *tests], env=library_environment(GPUVEC_LIB=library), cwd=ROOT)
