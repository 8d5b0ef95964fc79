"""The header, the library and the bindings of these tests agree."""

import ctypes
import re

import header
import pytest
from bindings import FUNCTIONS, LIBRARY, ROOT, Backend, PathBit, Place, Run, Status, lib
from operations import OPERATIONS
from programs import run


def exported() -> list:
    """Returns the names that the library exports, sorted."""
    lines = run(["nm", "-D", "--defined-only", LIBRARY]).splitlines()
    return sorted(line.split()[-1] for line in lines)


def test_library_exports_the_headers_functions():
    """The library exports every declared function and no other symbol."""
    assert exported() == sorted(header.prototypes())


def test_bindings_have_the_headers_signatures():
    """The types of each function's result and arguments agree."""
    assert header.prototypes() == FUNCTIONS


@pytest.mark.parametrize(
    "name, prefix, members",
    [
        ("gpuvec_status", "GPUVEC_", Status),
        ("gpuvec_place", "GPUVEC_PLACE_", Place),
        ("gpuvec_backend", "GPUVEC_BACKEND_", Backend),
    ],
)
def test_bindings_have_the_headers_enumerations(name, prefix, members):
    """Every name and value."""
    assert header.enumeration(name) == {prefix + member.name: member.value for member in members}


def test_bindings_have_the_headers_path_bits():
    """Every name and value."""
    prefix = "GPUVEC_PATH_"
    bits = {name: value for name, value in header.defines().items() if name.startswith(prefix)}
    assert bits == {prefix + bit.name: bit.value for bit in PathBit}


def test_bindings_have_the_headers_structure():
    """The fields' names, types and order."""
    assert header.fields("gpuvec_run") == Run._fields_
    assert ctypes.sizeof(Run) == 40


def test_every_operation_is_tested():
    """A function that takes an array `out` has its row in the table."""
    assert {operation.name for operation in OPERATIONS} == header.operations()


def test_versions_agree():
    """The header's macros, the library's functions and the package's manifest."""
    macros = header.defines()
    parts = [macros[f"GPUVEC_VERSION_{part}"] for part in ("MAJOR", "MINOR", "PATCH")]
    version = ".".join(map(str, parts))
    assert lib.gpuvec_version().decode() == version
    manifest = (ROOT / "Cargo.toml").read_text()
    assert re.search(r'^version = "(.*)"$', manifest, flags=re.MULTILINE)[1] == version
    assert lib.gpuvec_abi_version() == macros["GPUVEC_ABI_VERSION"]
