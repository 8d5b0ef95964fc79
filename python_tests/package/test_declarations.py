"""The package's declarations agree with the header."""

import ctypes

import gpuvec
import header
import pytest
from gpuvec import _accumulator, _declarations, _expressions, _last_run, _library, _settings

pytestmark = pytest.mark.wheel

# The functions that store a structure.
STRUCTURES = {
    "gpuvec_last_run": _library.RunStructure,
    "gpuvec_memory": _library.MemoryStructure,
}


def test_every_exported_function_is_declared():
    """Each function of the header has its result and its arguments, ready for callers of ctypes."""
    declared = {
        name: (getattr(gpuvec.functions, name).restype, getattr(gpuvec.functions, name).argtypes)
        for name in _library.SIGNATURES
    }
    found = {name: (result, as_declared(types)) for name, (result, types) in declared.items()}
    for name, structure in STRUCTURES.items():
        found[name] = untyped(found[name], structure)
    wanted = {
        name: (result, as_declared(types)) for name, (result, types) in header.prototypes().items()
    }
    assert found == wanted


def untyped(declared: tuple, structure: type) -> tuple:
    """A declaration with the pointer to the package's structure as a plain address."""
    pointer = ctypes.POINTER(structure)
    result, types = declared
    assert pointer in types
    return result, tuple(ctypes.c_void_p if kind is pointer else kind for kind in types)


def as_declared(types) -> tuple:
    """Types of arguments; None, which ctypes has for a function without any, as well."""
    return tuple(types or ())


def test_the_structure_is_the_header_s():
    """The fields' names, types and order."""
    assert header.fields("gpuvec_run") == _library.RunStructure._fields_
    assert header.fields("gpuvec_memory_info") == _library.MemoryStructure._fields_


@pytest.mark.parametrize(
    "name", ["status", "place", "backend", "choice", "reason", "accumulator_kind"]
)
def test_names_and_numbers_are_the_header_s(name):
    """Statuses, placements, the values of the last run, and kinds of accumulators."""
    lists = {
        "place": _settings.PLACEMENTS,
        "backend": _last_run.BACKENDS,
        "choice": _last_run.CHOICES,
        "reason": _last_run.REASONS,
    }
    prefix = {"status": "GPUVEC_", "accumulator_kind": "GPUVEC_ACCUMULATOR_"}.get(
        name, f"GPUVEC_{name.upper()}_"
    )
    if name == "status":
        found = {prefix + status.name: status.value for status in gpuvec.Status}
    elif name == "accumulator_kind":
        found = {
            f"{prefix}{operation.upper()}_F{8 * dtype.itemsize}": value
            for (operation, dtype), value in _accumulator.KINDS.items()
        }
    else:
        found = {
            prefix + text.upper().replace(" ", "_"): value for value, text in enumerate(lists[name])
        }
    assert found == header.enumeration(f"gpuvec_{name}")


def test_types_and_forms_are_the_header_s():
    """The numbers by which expressions declare their inputs, and their texts."""
    short = {"b": "BOOL", "i": "I{}", "u": "U{}", "f": "F{}"}
    types = {
        "GPUVEC_" + short[dtype.kind].format(8 * dtype.itemsize): number
        for dtype, number in _declarations.TYPES.items()
        if number != _declarations.BFLOAT16
    }
    types["GPUVEC_BF16"] = _declarations.BFLOAT16
    assert types == header.enumeration("gpuvec_type")
    forms = {"GPUVEC_EXPR_PROGRAM": _expressions.PROGRAM, "GPUVEC_EXPR_PTX": _expressions.PTX}
    assert forms == header.enumeration("gpuvec_expr_form")
    macros = header.defines()
    assert macros["GPUVEC_SCALAR"] == _declarations.SCALAR
    assert macros["GPUVEC_NUMBER"] == _declarations.NUMBER


def test_paths_are_the_header_s():
    """The name of each bit."""
    bits = {name: value for name, value in header.defines().items() if "_PATH_" in name}
    named = {
        f"GPUVEC_PATH_{name.upper().replace(' ', '_')}": 1 << bit
        for bit, name in enumerate(_last_run.PATHS)
    }
    assert named == bits


def test_versions_agree():
    """The package has the library's version, and the header's binary interface."""
    macros = header.defines()
    parts = [macros[f"GPUVEC_VERSION_{part}"] for part in ("MAJOR", "MINOR", "PATCH")]
    assert gpuvec.__version__ == gpuvec.version() == ".".join(map(str, parts))
    assert gpuvec.abi_version() == macros["GPUVEC_ABI_VERSION"] == _library.ABI_VERSION


def test_public_names_exist_and_are_described():
    """Every public name has a docstring, for help()."""
    for name in gpuvec.__all__:
        assert getattr(gpuvec, name).__doc__, name
