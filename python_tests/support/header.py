"""The declarations of include/gpuvec.h, read as text."""

import functools
import re
from ctypes import c_char_p, c_double, c_float, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

TYPES = {
    "int32_t": c_int32,
    "gpuvec_status": c_int32,
    "uint32_t": c_uint32,
    "uint64_t": c_uint64,
    "size_t": c_size_t,
    "float": c_float,
    "double": c_double,
    "const char *": c_char_p,
}


# The sections that declare no function.
WITHOUT_FUNCTIONS = ("Constants and types", "All functions")


@functools.cache
def text() -> str:
    """Returns the header without its comments."""
    source = (ROOT / "include/gpuvec.h").read_text()
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", source, flags=re.DOTALL)


def ctype(declared: str):
    """Returns the ctypes type for a C type; every pointer to data is untyped."""
    declared = re.sub(r"\s*\*\s*", " *", declared.strip())
    return TYPES.get(declared, c_void_p if declared.endswith("*") else None)


def declarations() -> list:
    """Returns each function's result, name and arguments, as text."""
    pattern = r"^((?:const |struct )?\w+ ?\**)\s*\b(\w+)\(([^)]*)\);"
    return re.findall(pattern, text(), flags=re.MULTILINE)


def table() -> list:
    """Returns the functions that the table in the opening comment names, in its order."""
    opening, _ = (ROOT / "include/gpuvec.h").read_text().split("*/", 1)
    rows = re.findall(r"^ \*     (\w+)((?:, _\w+)*)  +\S", opening, flags=re.MULTILINE)
    names = []
    for first, others in rows:
        stem = first.rpartition("_")[0]
        names += [first, *(stem + ending for ending in others.split(", ")[1:])]
    return names


def examples() -> dict:
    """Maps each section of functions to the first code in its comment."""
    source = (ROOT / "include/gpuvec.h").read_text()
    found = {}
    for title, comment in re.findall(r"^/\* == ([^\n]*) ==\n(.*?)\*/", source, re.M | re.S):
        lines = [line.removeprefix(" *") for line in comment.splitlines()]
        code = [line for line in lines if line.startswith("     ")]
        found[title] = "\n".join(line[1:] for line in code)
    return {title: code for title, code in found.items() if title not in WITHOUT_FUNCTIONS}


def man_pages() -> dict:
    """Maps each manual page, the overview and those of sections, to its functions."""
    source = (ROOT / "include/gpuvec.h").read_text()
    parts = re.split(r"^/\* == (.*) ==$", source, flags=re.MULTILINE)
    pages = {}
    for title, part in zip(parts[1::2], parts[2::2]):
        # The rest of the section's comment has examples.
        declared = part.partition("*/")[2]
        names = [name for name in prototypes() if re.search(rf"\b{name}\([^)]*\);", declared)]
        pages[f"gpuvec_{title.lower().replace(' ', '_')}" if names else "gpuvec"] = names
    return pages


@functools.cache
def operations() -> set:
    """Returns the functions that have an argument `out`, but for that of expressions."""
    found = {name for _, name, arguments in declarations() if re.search(r"\bout\b", arguments)}
    return found - {"gpuvec_expr_run"}


def prototypes() -> dict:
    """Returns each function's result and arguments, as ctypes types."""
    found = {}
    for result, name, arguments in declarations():
        types = [re.sub(r"\w+$", "", argument.strip()) for argument in arguments.split(",")]
        types = [] if arguments == "void" else [ctype(declared) for declared in types]
        found[name] = (ctype(result), types)
    return found


def defines() -> dict:
    """Returns the macros that are numbers."""
    pairs = re.findall(r"^#define (\w+) (\d+)$", text(), flags=re.MULTILINE)
    return {name: int(value) for name, value in pairs}


def enumeration(name: str) -> dict:
    """Returns the names and values of an enumeration."""
    [body] = re.findall(rf"enum {name}\b[^;]*?\{{(.*?)\}}", text(), flags=re.DOTALL)
    return {key: int(value) for key, value in re.findall(r"(\w+) = (-?\d+)", body)}


def fields(struct: str) -> list:
    """Returns the names and types of a structure's fields."""
    [body] = re.findall(rf"struct {struct} \{{(.*?)\}}", text(), flags=re.DOTALL)
    found = re.findall(r"(\w+) (\w+)(?:\[(\d+)\])?;", body)
    return [
        (name, ctype(declared) * int(count) if count else ctype(declared))
        for declared, name, count in found
    ]
