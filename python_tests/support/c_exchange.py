"""Makes arrays as other libraries export them, also by DLPack's C interface for exchange."""

import ctypes
from ctypes import CFUNCTYPE, POINTER, byref, c_int, c_int32, c_uint32, c_void_p, py_object

import numpy as np
import pytest
from gpuvec._dlpack import CUDA, ManagedVersioned, tensor_of

EXPORT = CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))
STREAM = CFUNCTYPE(c_int, c_int, c_int32, POINTER(c_void_p))
DELETE = CFUNCTYPE(None, c_void_p)
NAME = b"dlpack_exchange_api"

new_capsule = ctypes.PyDLL(None).PyCapsule_New
new_capsule.restype, new_capsule.argtypes = py_object, [c_void_p, ctypes.c_char_p, c_void_p]


class Functions(ctypes.Structure):
    """`DLPackExchangeAPI`."""

    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("previous", c_void_p),
        ("allocate", c_void_p),
        ("export", EXPORT),
        ("import", c_void_p),
        ("describe", c_void_p),
        ("current_stream", STREAM),
    ]


def library(major=1, stream=0, is_failing=False, kind=None):
    """Makes another library's class of arrays, whose work is on ``stream``."""

    class Array:
        """An array that knows how it was exported."""

        def __init__(self, array):
            self.array, self.exports, self.alive = array, [], 0

        def __dlpack_device__(self):
            """Return the device."""
            return self.array.__dlpack_device__()

        def __dlpack__(self, *, stream=None, max_version=None):
            """Export the array."""
            self.exports.append(("slow", stream))
            return self.array.__dlpack__(stream=stream, max_version=max_version)

    @EXPORT
    def export(address, place):
        array = ctypes.cast(address, py_object).value
        if is_failing:
            array.exports.append("failure")
            return -1
        capsule = array.array.__dlpack__(max_version=(1, 0), **on_gpu(array.array))
        tensor = ManagedVersioned()
        tensor.major, tensor.tensor = 1, tensor_of(capsule)[0]
        tensor.tensor.device_type = kind or tensor.tensor.device_type
        flags = getattr(array.array, "flags", None)
        tensor.flags = int(flags is not None and not flags.writeable)

        @DELETE
        def delete(_):
            array.alive -= 1
            del kept[ctypes.addressof(tensor)]

        tensor.deleter = ctypes.cast(delete, c_void_p)
        kept[ctypes.addressof(tensor)] = tensor, capsule, delete
        array.exports.append("quick")
        array.alive += 1
        place[0] = ctypes.addressof(tensor)
        return 0

    @STREAM
    def current_stream(_kind, _device, place):
        place[0] = stream
        return 0

    functions = Functions(major, 3, export=export, current_stream=current_stream)
    kept = {0: functions}
    Array.functions = functions
    Array.__dlpack_c_exchange_api__ = new_capsule(
        ctypes.cast(byref(functions), c_void_p), NAME, None
    )
    return Array


def on_gpu(array) -> dict[str, int]:
    """Returns the arguments of ``__dlpack__`` for an array on a GPU."""
    return {"stream": 1} if array.__dlpack_device__()[0] == CUDA else {}


def read_only_ones() -> np.ndarray:
    """Makes a read-only array of three, or skips a test where NumPy does not export such arrays."""
    array = np.ones(3)
    array.flags.writeable = False
    try:
        array.__dlpack__(max_version=(1, 0))
    except (TypeError, BufferError):
        pytest.skip("this NumPy does not export read-only arrays")
    return array
