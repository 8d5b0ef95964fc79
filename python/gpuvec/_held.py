"""The memory that the library holds."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from ._errors import check
from ._evaluate import forget
from ._library import ALL_DEVICES, MemoryStructure, functions, ordinal


class Memory(NamedTuple):
    """The memory that the library holds, in bytes."""

    pinned: int
    """Page-locked host memory: arrays of `pinned_empty`, and the library's own buffers."""
    pinned_allocated: int
    """The part of `pinned` that arrays of `pinned_empty` use."""
    device: int
    """Device memory: device arrays, freed arrays, and the library's own buffers."""
    device_allocated: int
    """The part of `device` that device arrays use."""
    device_kept: int
    """The part of `device` that was freed, and is kept for new arrays of the same sizes."""
    registered: int
    """Page-locked memory of arrays that were registered, in whole pages."""
    modules: int
    """The number of loaded kernels."""


def memory(device: int | None = None) -> Memory:
    """Return how much memory the library holds on a GPU, or on all of them.

    Opens neither the driver nor a GPU: without them nothing is held.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> array = gpuvec.to_device(np.ones(1000))
    >>> held = gpuvec.memory()
    >>> held.device >= held.device_allocated + held.device_kept
    True
    """
    number = ALL_DEVICES if device is None else ordinal(device)
    info = MemoryStructure()
    check(functions.gpuvec_memory(number, ctypes.byref(info), ctypes.sizeof(info)))
    return Memory(*(getattr(info, name) for name in Memory._fields))


def trim() -> int:
    """Free the memory and the kernels that nothing uses, on all GPUs; return the bytes.

    These are the library's own buffers, arrays that were freed, and the kernels of expressions that
    were dropped. The next calls allocate anew, and take longer. Other threads may make calls
    meanwhile.

    Examples
    --------
    >>> import gpuvec
    >>> _ = gpuvec.trim()
    >>> gpuvec.memory().device_kept
    0
    """
    forget()
    freed = ctypes.c_uint64()
    check(functions.gpuvec_trim(ctypes.byref(freed)))
    return freed.value
