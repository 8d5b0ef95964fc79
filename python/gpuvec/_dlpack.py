"""Imports arrays of other libraries, from DLPack or from a description of their memory.

Each array becomes an ndarray that describes the elements, even if they are on a GPU. NumPy never
reads them: only the array's address, shape, strides and flags are used.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._library import native

if TYPE_CHECKING:
    from numpy.typing import NDArray

# NumPy's major and minor version. Its own class for versions takes a tenth of gpuvec's import.
NUMPY = tuple(map(int, np.__version__.split(".")[:2]))

# DLDeviceType, and the kinds that are a GPU's.
CPU, CUDA, PINNED, MANAGED = 1, 2, 3, 13
ON_GPU = (CUDA, MANAGED)
DEVICES = {
    CPU: "CPU",
    CUDA: "CUDA",
    PINNED: "CUDA pinned",
    4: "OpenCL",
    7: "Vulkan",
    8: "Metal",
    10: "ROCm",
    MANAGED: "CUDA managed",
    14: "oneAPI",
}
# DLDataTypeCode: signed and unsigned integers, floats, complex numbers, booleans; and their bits.
KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
# The code of bfloat16, which NumPy has once ml_dtypes is imported.
BFLOAT = 4
BITS = {"i": (8, 16, 32, 64), "u": (8, 16, 32, 64), "f": (16, 32, 64), "c": (64, 128), "b": (8,)}
# The most axes of NumPy's arrays.
NUMPY_AXES = 64 if NUMPY >= (2, 0) else 32
# Flags of a tensor. Writes to a copy do not reach the exporter's array.
READ_ONLY, IS_COPIED = 1, 2


class Tensor(ctypes.Structure):
    """`DLTensor`."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    """`DLManagedTensor`."""

    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class ManagedVersioned(ctypes.Structure):
    """`DLManagedTensorVersioned`."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


# A handle of this module's own: types declared on ctypes.pythonapi would affect all its users.
_python = ctypes.PyDLL(None)
_is_valid = _python.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
get_pointer = _python.PyCapsule_GetPointer
get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class Found(NamedTuple):
    """The place of an argument's elements."""

    # Describes the elements, and keeps their memory alive. NumPy cannot read elements on a GPU.
    array: NDArray[Any]
    # The GPU's number; None for memory of the host.
    device: int | None = None
    # True if the memory has bytes and no element type.
    is_raw: bool = False


class _Described:
    """Memory of another library, as NumPy expects it; lives as long as the array made from it."""

    def __init__(self, interface: dict[str, Any], owner: object) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def described(
    name: str,
    address: int,
    shape: tuple[int, ...],
    typestr: str,
    strides: tuple[int, ...] | None,
    is_read_only: bool,
    owner: object,
) -> NDArray[Any]:
    """Makes the array that describes the memory of an argument."""
    if not address and 0 not in shape:
        raise ValueError(f"{name} has NULL data and shape {shape}: pass an array that has memory")
    interface = {
        "version": 3,
        "shape": shape,
        "typestr": typestr,
        # NumPy refuses NULL, also without elements; the library accepts any aligned address.
        "data": (address or 4096, is_read_only),
        "strides": strides,
    }
    try:
        return np.asarray(_Described(interface, owner))
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{name} has shape {shape}, typestr {typestr!r} and strides {strides}, which are not "
            f"those of an array: {error}"
        ) from error


def tensor_of(capsule: object) -> tuple[Tensor, bool]:
    """Returns the tensor in a capsule, and whether it must not be written."""
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = ManagedVersioned.from_address(get_pointer(capsule, b"dltensor_versioned"))
        if versioned.major != 1:
            raise BufferError(
                f"DLPack {versioned.major}.{versioned.minor} is not supported: export version 1.x"
            )
        return versioned.tensor, bool(versioned.flags & (READ_ONLY | IS_COPIED))
    return Managed.from_address(get_pointer(capsule, b"dltensor")).tensor, False


def bfloat16(name: str) -> np.dtype[Any]:
    """Returns NumPy's type bfloat16; raises TypeError unless ml_dtypes is installed."""
    try:
        types = importlib.import_module("ml_dtypes")
    except ImportError:
        raise TypeError(
            f"{name} has type bfloat16, which NumPy has only with the package ml_dtypes: install it"
        ) from None
    dtype: np.dtype[Any] = np.dtype(types.bfloat16)
    return dtype


def typestr_of(name: str, tensor: Tensor) -> str:
    """Returns the type of a tensor's elements, as NumPy writes it."""
    kind = KINDS.get(tensor.code, "")
    if tensor.bits not in BITS.get(kind, ()) or tensor.lanes != 1:
        raise TypeError(
            f"{name} has a DLPack type that NumPy does not have (code {tensor.code}, {tensor.bits} "
            f"bits, {tensor.lanes} lanes): pass an array of another type, such as float32"
        )
    return f"{'|' if tensor.bits == 8 else '<'}{kind}{tensor.bits // 8}"


def borrowed(name: str, producer: Any, stream: int) -> Found:
    """Finds the elements of an object with ``__dlpack__``.

    The capsule stays unconsumed: it frees the tensor when the last array on it is gone.
    On a GPU, the producer's work precedes later work of ``stream``, a native stream.
    """
    _check_bits(name, producer)
    capsule = native.exported(producer, stream) if native is not None else None
    if capsule is None:
        capsule = _requested(name, producer, stream)
    tensor, is_read_only = tensor_of(capsule)
    _check_device(name, tensor.device_type)
    is_bfloat = (tensor.code, tensor.bits, tensor.lanes) == (BFLOAT, 16, 1)
    typestr = "<u2" if is_bfloat else typestr_of(name, tensor)
    size, axes = tensor.bits // 8, tensor.ndim
    if not 0 <= axes <= NUMPY_AXES:
        raise ValueError(f"{name} has {axes} axes: pass an array of 0 to {NUMPY_AXES}")
    if axes and not tensor.shape:
        raise ValueError(f"{name} has a NULL shape and {axes} axes: pass an array that has lengths")
    array = described(
        name,
        tensor.data + tensor.byte_offset if tensor.data else 0,
        tuple(tensor.shape[:axes]) if axes else (),
        typestr,
        tuple(stride * size for stride in tensor.strides[:axes]) if tensor.strides else None,
        is_read_only or _is_immutable(producer),
        capsule,
    )
    array = array.view(bfloat16(name)) if is_bfloat else array
    return Found(array, tensor.device_id if tensor.device_type in ON_GPU else None)


def _check_bits(name: str, producer: Any) -> None:
    """Raises ValueError for a tensor of PyTorch whose elements are not those in memory.

    A bit says that they are negated or conjugated, which DLPack cannot express.
    """
    for asked, bit, resolved in (
        ("is_neg", "negative", "resolve_neg"),
        ("is_conj", "conjugate", "resolve_conj"),
    ):
        is_set = getattr(producer, asked, None)
        if callable(is_set) and is_set():
            raise ValueError(
                f"{name} has PyTorch's {bit} bit, so its memory has other elements: pass a tensor "
                f"without it, such as the copy that {name}.{resolved}() makes"
            )


def _is_immutable(producer: Any) -> bool:
    """Returns whether an array must not be written, even if its tensor has no flag for that.

    JAX arrays share their memory with others.
    """
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(producer, getattr(jax, "Array", ()))


def _check_device(name: str, kind: int) -> None:
    """Raises TypeError for memory that calls cannot use."""
    if kind not in (CPU, CUDA, PINNED, MANAGED):
        device = DEVICES.get(kind, f"device type {kind}")
        raise TypeError(f"{name} is on {device}: pass an array on the CPU or on a CUDA device")


def _requested(name: str, producer: Any, stream: int) -> object:
    """Returns the capsule that an object's ``__dlpack__`` makes."""
    kind, _ = producer.__dlpack_device__()
    kind = int(kind)
    _check_device(name, kind)
    order = stream if kind in ON_GPU else None
    try:
        return producer.__dlpack__(stream=order, max_version=(1, 0))
    except TypeError:
        # A producer of DLPack 0.x.
        return producer.__dlpack__(stream=order)


def capsule_of(array: NDArray[Any], device: int | None, max_version: Any) -> object:
    """Makes a capsule of an array that may describe memory of a GPU.

    NumPy makes it: its deleter needs no Python code, so it is safe at exit. The device is then
    written into it.
    """
    newer = {} if max_version is None or NUMPY < (2, 1) else {"max_version": max_version}
    is_bfloat = array.dtype.name == "bfloat16"
    capsule: object = (array.view(np.uint16) if is_bfloat else array).__dlpack__(**newer)
    tensor, _ = tensor_of(capsule)
    if is_bfloat:
        tensor.code = BFLOAT
    if device is not None:
        tensor.device_type, tensor.device_id = CUDA, device
    return capsule
