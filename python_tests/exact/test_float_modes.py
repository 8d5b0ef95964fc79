"""Exact sums have the committed bits in any floating-point mode of the caller."""

import ctypes

import numpy as np
import pytest
from bindings import lib
from corpus_calls import check
from float_modes import FLAGS, MODES


@pytest.mark.parametrize("mode", MODES)
def test_any_mode(call_with_mxcsr, cases, mode):
    """The caller's mode is restored after every call."""
    function = ctypes.cast(getattr(lib, f"gpuvec_{cases.kind}"), ctypes.c_void_p)
    found, after = np.empty(len(cases), cases.kind.dtype), ctypes.c_uint32()
    for number in range(len(cases)):
        arrays = [array for array in cases.case(number) if array is not None]
        addresses = [array.ctypes.data for array in [*arrays, found[number:]]]
        words = (ctypes.c_size_t * 5)(*addresses, arrays[0].size)
        assert call_with_mxcsr(MODES[mode], after, function, 0.0, words) == 0
        assert after.value & ~FLAGS == MODES[mode] & ~FLAGS
    check(cases, found)
