"""Vector operations on NVIDIA GPUs, or with the same bits on the CPU.

>>> import gpuvec, numpy as np
>>> a, b = np.arange(3, dtype=np.float32), np.ones(3, dtype=np.float32)
>>> gpuvec.add(a, b)
array([1., 2., 3.], dtype=float32)

Operations
    `add`, `sub`, `mul`, `dot`, `sum`, `min`, `max`, `var`, `std` of float16, ml_dtypes' bfloat16,
    float32, float64, int32, int64 and uint64; `div`, `scale`, `axpy` of the floats. All take
    ``out=`` and ``stream=``, and reductions ``axis=`` and ``keepdims=``.
Arrays
    NumPy arrays, `DeviceArray`, objects with the buffer protocol (``bytes``, ``mmap``,
    ``array.array``), DLPack or ``__cuda_array_interface__`` (CuPy, PyTorch, Numba), in any mix.
    They are aligned and of one type, have any strides, and are broadcast as by NumPy. Buffers of
    bytes take the element type of the call's other arrays. Inputs may be read-only. Columns of
    pandas, polars, pyarrow and xarray are inputs; results then are such columns. Operators of
    `DeviceArray` are formulas, whose operands may be NumPy arrays and numbers.
Memory
    `pinned_empty`, `pinned_zeros`, `pinned_like`, `pinned`, `to_device`, `from_dlpack`, `copy`,
    `memory`, `trim`.
Streams
    `Stream`, `Event`.
Formulas
    `evaluate`, `Expression`, `Scalar`.
Reductions by key
    ``by=`` of `evaluate` and of the reductions; `group` and `Groups` for keys of any type.
Exact sums in parts
    `Accumulator`.
Placement and devices
    `placement`, `set_placement`, `get_placement`, `set_device`, `get_device`, `last_run`,
    `why_cpu`, `device_count`, `device_name`, `init`.
Threads
    `set_num_threads`, `get_num_threads`.
Errors
    `TypeError` and `ValueError` name the argument, what was found and what is wanted. An error of
    the library is an `Error` with its ``status``.
Extension modules in C and C++
    `get_include`, the folder of the headers, and `get_library`, which modules are linked with.
ctypes
    `library_path`, and `functions`, the library with the types of all exported functions declared.

``python -m gpuvec`` prints the information that a bug report needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import _operations
from ._device_array import DeviceArray
from ._errors import (
    ArgumentError,
    DeviceError,
    Error,
    ExpressionError,
    InternalError,
    OutOfMemoryError,
    Status,
    UnavailableError,
)
from ._library import functions, get_include, get_library, library_path, text
from ._operations import *  # noqa: F403 (the names in its __all__, which is checked)
from ._streams import Event, Stream

if TYPE_CHECKING:
    from ._accumulator import Accumulator as Accumulator
    from ._declarations import Scalar as Scalar
    from ._evaluate import evaluate as evaluate
    from ._expressions import Expression as Expression
    from ._group import Groups as Groups
    from ._group import group as group
    from ._held import Memory as Memory
    from ._held import memory as memory
    from ._held import trim as trim
    from ._last_run import Run as Run
    from ._last_run import last_run as last_run
    from ._memory import copy as copy
    from ._memory import from_dlpack as from_dlpack
    from ._memory import pinned as pinned
    from ._memory import pinned_empty as pinned_empty
    from ._memory import pinned_like as pinned_like
    from ._memory import pinned_zeros as pinned_zeros
    from ._memory import to_device as to_device
    from ._settings import abi_version as abi_version
    from ._settings import device_count as device_count
    from ._settings import device_name as device_name
    from ._settings import get_device as get_device
    from ._settings import get_num_threads as get_num_threads
    from ._settings import get_placement as get_placement
    from ._settings import init as init
    from ._settings import placement as placement
    from ._settings import set_device as set_device
    from ._settings import set_num_threads as set_num_threads
    from ._settings import set_placement as set_placement
    from ._settings import version as version
    from ._settings import why_cpu as why_cpu

__version__ = text(functions.gpuvec_version())

__all__ = [
    "ArgumentError",
    "DeviceArray",
    "DeviceError",
    "Error",
    "Event",
    "ExpressionError",
    "InternalError",
    "OutOfMemoryError",
    "Status",
    "Stream",
    "UnavailableError",
    "__version__",
    "functions",
    "get_include",
    "get_library",
    "library_path",
]

# Names whose modules are imported at their first use, to keep this import short.
_IMPORTED_LATER = {
    "_accumulator": "Accumulator",
    "_declarations": "Scalar",
    "_evaluate": "evaluate",
    "_expressions": "Expression",
    "_group": "Groups group",
    "_held": "Memory memory trim",
    "_last_run": "Run last_run",
    "_memory": "copy from_dlpack pinned pinned_empty pinned_like pinned_zeros to_device",
    "_settings": "abi_version device_count device_name get_device get_num_threads get_placement "
    "init placement set_device set_num_threads set_placement version why_cpu",
}
_MODULES = {name: module for module, names in _IMPORTED_LATER.items() for name in names.split()}
__all__ += [*_operations.__all__, *_MODULES]


def __getattr__(name: str) -> Any:
    """Return a name whose module is imported at its first use."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the names, with those that are imported later."""
    return sorted({*globals(), *__all__})
