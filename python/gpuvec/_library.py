"""Finds and loads the library, and declares its functions."""

from __future__ import annotations

import ctypes
import importlib.machinery
import operator
import os
import sys
from typing import Any

# The version of the binary interface to which the declarations below belong.
ABI_VERSION = 1

# Each operation's formula, number of input arrays, whether it is a reduction, and functions: the
# element type of the inputs, and of the output.
OPERATIONS: dict[str, tuple[str, int, bool, dict[str, str]]] = {
    # Written by build.rs, from the table of operations:
    "add": ("a + b", 2, False, {"f32": "f32", "f64": "f64", "i32": "i32", "i64": "i64"}),
    "sub": ("a - b", 2, False, {"f32": "f32", "f64": "f64", "i32": "i32", "i64": "i64"}),
    "mul": ("a * b", 2, False, {"f32": "f32", "f64": "f64", "i32": "i32", "i64": "i64"}),
    "div": ("a / b", 2, False, {"f32": "f32", "f64": "f64"}),
    "scale": ("alpha * a", 1, False, {"f32": "f32", "f64": "f64"}),
    "axpy": ("fma(alpha, a, b)", 2, False, {"f32": "f32", "f64": "f64"}),
    "dot": ("dot(a, b)", 2, True, {"f32": "f32", "f64": "f64", "i32": "i64", "i64": "i64"}),
    "sum": ("sum(a)", 1, True, {"f32": "f32", "f64": "f64", "i32": "i64", "i64": "i64"}),
    "min": ("min(a)", 1, True, {"f32": "f32", "f64": "f64", "i32": "i32", "i64": "i64"}),
    "max": ("max(a)", 1, True, {"f32": "f32", "f64": "f64", "i32": "i32", "i64": "i64"}),
    # End of what build.rs writes.
}

# The types of numbers that operations take, by the element type.
NUMBERS: dict[str, Any] = {
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
}


class RunStructure(ctypes.Structure):
    """`gpuvec_run`."""

    _fields_ = [
        ("backend", ctypes.c_int32),
        ("path", ctypes.c_uint32),
        ("devices", ctypes.c_uint64),
        ("threads", ctypes.c_uint64),
        ("chunks", ctypes.c_uint64),
        ("bytes_staged", ctypes.c_uint64),
        ("choice", ctypes.c_int32),
        ("reason", ctypes.c_int32),
        ("time_ns", ctypes.c_uint64),
        ("predicted_ns", ctypes.c_uint64 * 8),
    ]


class MemoryStructure(ctypes.Structure):
    """`gpuvec_memory_info`."""

    _fields_ = [
        ("pinned", ctypes.c_uint64),
        ("pinned_allocated", ctypes.c_uint64),
        ("device", ctypes.c_uint64),
        ("device_allocated", ctypes.c_uint64),
        ("device_kept", ctypes.c_uint64),
        ("registered", ctypes.c_uint64),
        ("modules", ctypes.c_uint64),
    ]


Signature = tuple[Any, list[Any]]

# The types of results and arguments. Pointers to arrays are addresses.
_TYPES: dict[str, Any] = {
    "i": ctypes.c_int32,
    "m": ctypes.POINTER(MemoryStructure),
    "n": ctypes.c_size_t,
    "p": ctypes.c_void_p,
    "r": ctypes.POINTER(RunStructure),
    "s": ctypes.c_char_p,
    "u": ctypes.c_uint64,
}

# The functions besides the operations, by the types of the result and of the arguments.
_FUNCTIONS = {
    "i pppn": "vector_add add_arrays dot_product",
    "p n": "pinned_alloc gpuvec_pinned_alloc",
    "i p": "pinned_free gpuvec_pinned_free gpuvec_device_free gpuvec_device_of "
    "gpuvec_host_unregister gpuvec_trim gpuvec_stream_destroy gpuvec_stream_synchronize "
    "gpuvec_stream_query gpuvec_event_query gpuvec_event_synchronize gpuvec_event_destroy "
    "gpuvec_accumulator_destroy gpuvec_expr_num_outputs gpuvec_expr_output_type "
    "gpuvec_expr_is_reduction gpuvec_expr_destroy",
    "p ni": "gpuvec_device_alloc",
    "i pn": "gpuvec_host_register gpuvec_expr_output_type_at gpuvec_expr_is_reduction_at",
    "i ppnp": "gpuvec_copy",
    "i imn": "gpuvec_memory",
    "p i": "gpuvec_stream_create gpuvec_accumulator_create",
    "p p": "gpuvec_stream_from_native",
    "i pp": "gpuvec_stream_wait gpuvec_event_record gpuvec_accumulator_merge "
    "gpuvec_accumulator_value",
    "p ": "gpuvec_event_create",
    "i ppp": "gpuvec_event_elapsed",
    "i pppnp": "gpuvec_accumulator_add gpuvec_expr_run",
    "p iip": "gpuvec_accumulator_create_nd",
    "i pippup": "gpuvec_accumulator_add_nd",
    "i pipppiuip": "gpuvec_accumulator_add_by",
    "n i": "gpuvec_accumulator_bytes",
    "i ppn": "gpuvec_accumulator_serialize",
    "p pn": "gpuvec_accumulator_deserialize",
    "p iippn": "gpuvec_accumulator_deserialize_nd",
    "i sppnp": "gpuvec_expr_compile",
    "i ssppnp": "gpuvec_expr_compile_by",
    "i pipppup": "gpuvec_expr_run_nd",
    "i pipppunip": "gpuvec_expr_run_by",
    "i pppup": "gpuvec_expr_run_dlpack",
    "i pppnnp": "gpuvec_expr_run_outputs",
    "i pi": "gpuvec_expr_prepare",
    "i pipnp": "gpuvec_expr_text",
    "s ": "gpuvec_last_error gpuvec_why_cpu gpuvec_version",
    "i ": "gpuvec_last_status gpuvec_get_placement gpuvec_get_thread_placement "
    "gpuvec_get_num_threads gpuvec_get_device gpuvec_init gpuvec_device_count gpuvec_abi_version",
    "s i": "gpuvec_status_string gpuvec_device_name",
    "i i": "gpuvec_set_placement gpuvec_set_thread_placement gpuvec_set_num_threads "
    "gpuvec_set_device",
    "i rn": "gpuvec_last_run",
}


def _operation(formula: str, inputs: int, element: str) -> Signature:
    alpha = [NUMBERS[element]] if "alpha" in formula else []
    return ctypes.c_int32, [
        *alpha,
        *[ctypes.c_void_p] * (inputs + 1),
        ctypes.c_size_t,
        ctypes.c_void_p,
    ]


# The types of the result and of the arguments of every exported function.
SIGNATURES: dict[str, Signature] = {
    **{
        f"gpuvec_{name}_{element}": _operation(formula, inputs, element)
        for name, (formula, inputs, _, functions) in OPERATIONS.items()
        for element in functions
    },
    **{
        name: (_TYPES[types[0]], [_TYPES[one] for one in types[2:]])
        for types, names in _FUNCTIONS.items()
        for name in names.split()
    },
}


def _find() -> str:
    """Returns the library's path: GPUVEC_LIB, or beside the package, or the checkout's build."""
    named = None if sys.flags.ignore_environment else os.environ.get("GPUVEC_LIB")
    if named:
        return os.path.realpath(named)
    package = os.path.dirname(os.path.realpath(__file__))
    checkout = os.path.dirname(os.path.dirname(package))
    candidates = [
        os.path.join(package, "libgpuvec.so"),
        os.path.join(checkout, "target", "release", "libgpuvec.so"),
    ]
    for candidate in candidates:
        if os.path.exists(candidate):
            return candidate
    places = " nor ".join(candidates)
    raise ImportError(
        f"gpuvec: there is neither {places}: install the wheel, run `cargo build --release` in the "
        "checkout, or set GPUVEC_LIB to the library's path"
    )


class Library(ctypes.CDLL):
    """A library whose functions are declared at their first use, to keep the import short."""

    def __getitem__(self, name: Any) -> Any:
        """Return a new object for a function, which ``__getattr__`` keeps."""
        function = super().__getitem__(name)
        if name in SIGNATURES:
            function.restype, function.argtypes = SIGNATURES[name]
        return function

    def __dir__(self) -> list[str]:
        """List the attributes, with all functions."""
        return [*super().__dir__(), *SIGNATURES]


def _load(path: str) -> Library:
    try:
        library = Library(path)
        found = library.gpuvec_abi_version()
    except (OSError, AttributeError) as error:
        raise ImportError(f"gpuvec: {path} cannot be used: {error}") from error
    if found != ABI_VERSION:
        raise ImportError(
            f"gpuvec: {path} has binary interface {found}, but this package needs {ABI_VERSION}: "
            "install a library and a package of one release"
        )
    return library


def _load_native(library: str) -> Any:
    """Returns the extension module, from the package or from the library's folder.

    Returns None if it is missing or does not fit this Python or NumPy: it needs CPython 3.10 with
    the GIL, and the layout of NumPy's arrays that it knows.
    """
    package, folder = os.path.dirname(os.path.realpath(__file__)), os.path.dirname(library)
    suffix = ".abi3.so"
    if suffix not in importlib.machinery.EXTENSION_SUFFIXES or sys.version_info < (3, 10):
        return None
    places = os.path.join(package, f"_native{suffix}"), os.path.join(folder, "libgpuvec_python.so")
    for path in filter(os.path.exists, places):
        loader = importlib.machinery.ExtensionFileLoader("gpuvec._native", path)
        # Not by importlib.util, which takes a third of a millisecond to import.
        spec = importlib.machinery.ModuleSpec("gpuvec._native", loader, origin=path)
        try:
            module = loader.create_module(spec)
            loader.exec_module(module)
        except ImportError:
            return None
        return module
    return None


_path = _find()
functions = _load(_path)
native: Any = _load_native(_path)


def address_of(function: Any) -> int | None:
    """Returns the address of a function, for the extension module."""
    return ctypes.cast(function, ctypes.c_void_p).value


def runs() -> tuple[int | None, int | None]:
    """Returns the addresses of the functions that run expressions, for the extension module."""
    run = functions.gpuvec_expr_run_outputs, functions.gpuvec_expr_run_nd
    return address_of(run[0]), address_of(run[1])


def library_path() -> str:
    """Return the path of the loaded library, for linkers and other bindings.

    Examples
    --------
    >>> import ctypes, gpuvec
    >>> own = ctypes.CDLL(gpuvec.library_path())
    >>> own.gpuvec_abi_version()
    1
    """
    return _path


def get_include() -> str:
    """Return the folder of ``gpuvec.h`` and ``gpuvec.hpp``, for C and C++.

    Examples
    --------
    >>> import gpuvec, os
    >>> sorted(name for name in os.listdir(gpuvec.get_include()) if name.endswith((".h", ".hpp")))
    ['gpuvec.h', 'gpuvec.hpp']
    """
    package = os.path.dirname(os.path.realpath(__file__))
    installed = os.path.join(package, "include")
    checkout = os.path.join(os.path.dirname(os.path.dirname(package)), "include")
    return installed if os.path.isdir(installed) else checkout


def get_library() -> str:
    """Return the path of the library, to link an extension module with.

    The module's package must import gpuvec before the module, which then uses the library that
    gpuvec has loaded.

    Examples
    --------
    >>> import gpuvec, os
    >>> os.path.basename(gpuvec.get_library())
    'libgpuvec.so'

    In a ``setup.py``::

        Extension(
            "module",
            ["module.c"],
            include_dirs=[gpuvec.get_include()],
            extra_objects=[gpuvec.get_library()],
        )
    """
    return _path


def ordinal(device: int) -> int:
    """Returns the number of a device as the library expects it, in an int32_t."""
    number = operator.index(device)
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"device is {device}: pass a number from 0 to gpuvec.device_count() - 1")
    return number


# GPUVEC_ALL_DEVICES, the device number that means all devices.
ALL_DEVICES = -1


def text(answer: bytes | None) -> str:
    """Decodes a string from the library."""
    return (answer or b"").decode(errors="replace")
