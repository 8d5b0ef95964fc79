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
    They are aligned, of one type, of any strides, and of shapes that NumPy would broadcast to one.
    Buffers of bytes take the element type of the call's other arrays. Inputs may be read-only.
    Columns of pandas, polars, pyarrow and xarray are inputs; results then are such columns.
    Operators of `DeviceArray` are formulas, whose operands may be NumPy arrays and numbers.
Memory
    `pinned_empty`, `pinned_zeros`, `pinned_like`, `pinned`, `to_device`, `from_dlpack`, `copy`,
    `memory`, `trim`.
Streams
    `Stream`, `Event`.
Formulas
    `evaluate`, `Expression`, `Scalar`.
Exact sums in pieces
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

``python -m gpuvec`` prints what a report of a defect needs.
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
    from ._accumulator import Accumulator
    from ._declarations import Scalar
    from ._evaluate import evaluate
    from ._expressions import Expression
    from ._held import Memory, memory, trim
    from ._last_run import Run, last_run
    from ._memory import (
        copy,
        from_dlpack,
        pinned,
        pinned_empty,
        pinned_like,
        pinned_zeros,
        to_device,
    )
    from ._settings import (
        abi_version,
        device_count,
        device_name,
        get_device,
        get_num_threads,
        get_placement,
        init,
        placement,
        set_device,
        set_num_threads,
        set_placement,
        version,
        why_cpu,
    )

__version__ = text(functions.gpuvec_version())

__all__ = [
    "Accumulator",
    "ArgumentError",
    "DeviceArray",
    "DeviceError",
    "Error",
    "Event",
    "Expression",
    "ExpressionError",
    "InternalError",
    "Memory",
    "OutOfMemoryError",
    "Run",
    "Scalar",
    "Status",
    "Stream",
    "UnavailableError",
    "__version__",
    "abi_version",
    "copy",
    "device_count",
    "device_name",
    "evaluate",
    "from_dlpack",
    "functions",
    "get_device",
    "get_include",
    "get_library",
    "get_num_threads",
    "get_placement",
    "init",
    "last_run",
    "library_path",
    "memory",
    "pinned",
    "pinned_empty",
    "pinned_like",
    "pinned_zeros",
    "placement",
    "set_device",
    "set_num_threads",
    "set_placement",
    "to_device",
    "trim",
    "version",
    "why_cpu",
]
__all__ += _operations.__all__

# Names whose modules are imported at their first use, to keep this import short.
_IMPORTED_LATER = {
    "_accumulator": "Accumulator",
    "_declarations": "Scalar",
    "_evaluate": "evaluate",
    "_expressions": "Expression",
    "_held": "Memory memory trim",
    "_last_run": "Run last_run",
    "_memory": "copy from_dlpack pinned pinned_empty pinned_like pinned_zeros to_device",
    "_settings": "abi_version device_count device_name get_device get_num_threads get_placement "
    "init placement set_device set_num_threads set_placement version why_cpu",
}
_MODULES = {name: module for module, names in _IMPORTED_LATER.items() for name in names.split()}


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
