"""Structures of Arrow's C data interface that are wrong, or that another consumer has moved."""

import ctypes

import gpuvec
import numpy as np
import pytest
from c_exchange import new_capsule
from gpuvec import _arrow


class ArrowStructures:
    """An array of three float64 as Arrow's C structures, made without a library."""

    def __init__(self):
        self.elements = np.arange(3.0)
        self.buffers = (ctypes.c_void_p * 2)(None, self.elements.ctypes.data)
        # Nothing calls it: the capsules have no destructors.
        self.schema = _arrow.Schema(format=b"g", release=1)
        self.array = _arrow.Array(length=3, buffers_count=2, buffers=self.buffers, release=1)

    def __arrow_c_array__(self, requested_schema=None):
        """Exports the structures."""
        structures = (self.schema, b"arrow_schema"), (self.array, b"arrow_array")
        return tuple(new_capsule(ctypes.addressof(one), name, None) for one, name in structures)


@pytest.mark.parametrize(
    "structure, changes, error, words",
    [
        ("schema", {"release": None}, ValueError, "exports an Arrow array that was released"),
        ("array", {"release": None}, ValueError, "exports an Arrow array that was released"),
        ("schema", {"format": None}, TypeError, "is of Arrow's format NULL: pass an array of"),
        ("schema", {"format": b"\xff"}, TypeError, "is of Arrow's format .*: pass an array of"),
        ("array", {"buffers": None}, ValueError, "is an Arrow array of 3 elements from 0 on"),
        ("array", {"buffers_count": 1}, ValueError, "in 1 buffers: pass an array of two buffers"),
        ("array", {"length": -3}, ValueError, "is an Arrow array of -3 elements"),
        ("array", {"offset": -1}, ValueError, "elements from -1 on"),
    ],
)
def test_wrong_structures_of_arrow(placement, structure, changes, error, words):
    """Are refused by the argument's name; memory that was released is not read."""
    x = ArrowStructures()
    assert gpuvec.evaluate("sum(x)", x=x) == 3
    for field, value in changes.items():
        setattr(getattr(x, structure), field, value)
    for call in (lambda: gpuvec.evaluate("x", x=x), lambda: gpuvec.Expression("x", x="f8")(x=x)):
        with pytest.raises(error, match=f"^x .*{words}"):
            call()


def test_an_array_of_pyarrow_that_was_moved(placement):
    """Its capsules stay with their exporter, and their structures are empty."""
    pyarrow = pytest.importorskip("pyarrow")
    capsules = pyarrow.array(np.arange(3.0)).__arrow_c_array__()
    moved = type("Moved", (), {"__arrow_c_array__": lambda *_: capsules})()
    assert gpuvec.evaluate("sum(x)", x=moved) == 3
    taken = pyarrow.Array._import_from_c_capsule(*capsules)
    with pytest.raises(ValueError, match="^x exports an Arrow array that was released"):
        gpuvec.evaluate("sum(x)", x=moved)
    assert taken.to_pylist() == [0, 1, 2]
