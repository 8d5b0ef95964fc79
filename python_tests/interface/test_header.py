"""The header, the library and the table of operations of these tests agree."""

import ctypes
import re
from ctypes import c_int32, c_size_t, c_void_p

import header
import pytest
from bindings import C_TYPES, LIBRARY, ROOT, Choice, Run, lib
from operations import OPERATIONS, Operation
from programs import run

pytestmark = pytest.mark.wheel


def exported() -> list:
    """Returns the names that the library exports, sorted."""
    lines = run(["nm", "-D", "--defined-only", LIBRARY]).splitlines()
    return sorted(line.split()[-1] for line in lines)


def test_library_exports_the_headers_functions():
    """The library exports every declared function and no other symbol."""
    assert exported() == sorted(header.prototypes())


def test_the_table_names_every_function():
    """In the order of the declarations, and each one once."""
    assert header.table() == list(header.prototypes())


def signature(operation: Operation) -> tuple:
    """Returns the types of the result and the arguments of an operation's function."""
    alpha = [C_TYPES[operation.dtype]] if operation.shape.takes_alpha else []
    stream = [c_void_p] if operation.takes_stream else []
    return c_int32, [*alpha, *[c_void_p] * len(operation.arrays), c_size_t, *stream]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_operations_have_the_headers_signatures(operation):
    """The table of the tests has the arguments of each function."""
    assert header.prototypes()[operation.name] == signature(operation)


def test_the_structure_of_the_last_run():
    """It has no padding, and a fixed size."""
    assert ctypes.sizeof(Run) == 40 + 2 * 4 + 8 + 8 * len(Choice)


def test_every_operation_is_tested():
    """A function that takes an array `out` has a row with its oracle."""
    forgotten = header.operations() - {operation.name for operation in OPERATIONS}
    assert not forgotten, "add a row to ROWS in python_tests/support/operations.py"


def test_versions_agree():
    """The header's macros, the library's functions and the package's manifest."""
    macros = header.defines()
    parts = [macros[f"GPUVEC_VERSION_{part}"] for part in ("MAJOR", "MINOR", "PATCH")]
    version = ".".join(map(str, parts))
    assert lib.gpuvec_version().decode() == version
    manifest = (ROOT / "Cargo.toml").read_text()
    assert re.search(r'^version = "(.*)"$', manifest, flags=re.MULTILINE)[1] == version
    assert lib.gpuvec_abi_version() == macros["GPUVEC_ABI_VERSION"]
