"""The function of docs/howto/ctypes.md refuses every array that it must not read or write."""

import array
import ctypes
import mmap
from typing import Callable

import numpy as np
import pytest
from bindings import ROOT
from documents import blocks

N = 1000
BEFORE = np.arange(N, dtype=np.float32)


@pytest.fixture
def add(monkeypatch) -> Callable:
    """The function that the page declares first."""
    block, *_ = blocks(ROOT / "docs/howto/ctypes.md", "python")
    monkeypatch.chdir(ROOT)
    names: dict = {}
    exec(block.values[0], names)
    return names["add"]


def column_that_is_read_only(_):
    pandas = pytest.importorskip("pandas", minversion="3")
    column = pandas.DataFrame({"values": BEFORE.copy()})["values"].to_numpy()
    assert not column.flags.writeable
    return column


def mapped_read_only(folder):
    BEFORE.tofile(folder / "values")
    return np.memmap(folder / "values", np.float32, mode="r")


def view_that_is_read_only(_):
    owner = BEFORE.copy()
    owner.flags.writeable = False
    return owner[:]


# Outputs that must not be written, or that are not arrays of N floats.
WRONG_OUTPUTS = {
    "a read-only column of pandas": column_that_is_read_only,
    "a read-only view": view_that_is_read_only,
    "an array of immutable bytes": lambda _: np.frombuffer(BEFORE.tobytes(), np.float32),
    "a read-only memmap": mapped_read_only,
    "bytes": lambda _: BEFORE.tobytes(),
    "bytearray": lambda _: bytearray(BEFORE.tobytes()),
    "array.array": lambda _: array.array("f", BEFORE),
    "an anonymous map": lambda _: mmap.mmap(-1, BEFORE.nbytes),
    "a shorter array": lambda _: BEFORE[: N - 1].copy(),
    "a longer array": lambda _: np.zeros(N + 1, np.float32),
    "every other element": lambda _: np.zeros(2 * N, np.float32)[::2],
    "a misaligned array": lambda _: np.zeros(4 * N + 1, np.uint8)[1:].view(np.float32),
    "another type": lambda _: np.zeros(N, np.float64),
    "a matrix": lambda _: np.zeros((N, 1), np.float32),
}


@pytest.mark.parametrize("output", WRONG_OUTPUTS)
def test_a_wrong_output_raises_and_is_not_written(add, tmp_path, output):
    """The page's declarations keep ctypes from writing where Python must not write."""
    out = WRONG_OUTPUTS[output](tmp_path)
    before = bytes(memoryview(np.ascontiguousarray(out)))
    with pytest.raises((TypeError, ValueError, AttributeError, ctypes.ArgumentError)):
        add(BEFORE, BEFORE, out)
    assert bytes(memoryview(np.ascontiguousarray(out))) == before


@pytest.mark.parametrize("which", ["a", "b"])
def test_a_wrong_input_raises(add, which):
    """A short input would be read past its end."""
    wrong = {"short": BEFORE[:-1], "strided": np.zeros(2 * N, np.float32)[::2]}
    for array_ in wrong.values():
        out = np.zeros(N, np.float32)
        with pytest.raises((ValueError, ctypes.ArgumentError)):
            add(**{"a": BEFORE, "b": BEFORE, "out": out, which: array_})
        assert not out.any()


def test_read_only_inputs_are_taken(add, tmp_path):
    a, b = mapped_read_only(tmp_path), view_that_is_read_only(tmp_path)
    out = np.zeros(N, np.float32)
    add(a, b, out)
    assert (out == 2 * BEFORE).all()
