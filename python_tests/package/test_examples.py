"""The examples in the docstrings print the output that they show."""

import doctest
import importlib
import pkgutil

import gpuvec
import pytest

pytestmark = pytest.mark.wheel

# Not libgpuvec.so, which lies beside them in a wheel.
FOUND = [found.name for found in pkgutil.iter_modules(gpuvec.__path__) if found.name[0] == "_"]
MODULES = ["gpuvec", *(f"gpuvec.{name}" for name in FOUND)]


@pytest.mark.parametrize("name", MODULES)
def test_examples(placement, name):
    """Each module's, with each placement."""
    failures, _ = doctest.testmod(importlib.import_module(name))
    assert failures == 0


def test_every_function_has_an_example():
    """Functions that take an array, and classes, show their use."""
    shown = ["add", "sub", "mul", "div", "scale", "axpy", "dot", "sum", "min", "max", "copy"]
    shown += ["var", "std"]
    shown += ["pinned", "pinned_empty", "pinned_zeros", "pinned_like", "to_device", "from_dlpack"]
    shown += [
        "DeviceArray",
        "Accumulator",
        "Stream",
        "Event",
        "placement",
        "last_run",
        "library_path",
        "get_include",
        "get_library",
    ]
    for name in shown:
        assert ">>>" in getattr(gpuvec, name).__doc__, name
