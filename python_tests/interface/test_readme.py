"""The documents' examples work as they are printed, as do the demo and the Python examples."""

import array
import ctypes
import mmap
import re
import sys
from typing import Callable

import numpy as np
import pytest
from bindings import ROOT
from documents import blocks
from programs import compile_c, library_environment, run

README, EXPRESSIONS = ROOT / "README.md", ROOT / "docs/reference/language.md"
RELEASE = ROOT / "target/release"
EXAMPLES = "device_loop streams structured mixed black_scholes signal_pipeline".split()
C, PYTHON = (
    [*blocks(README, language), *blocks(EXPRESSIONS, language)] for language in ("c", "python")
)


def test_readme_shows_both_languages():
    """There is an example in Python and one in C."""
    assert C and PYTHON


@pytest.mark.parametrize("code, needs", PYTHON)
def test_python(code, needs):
    """Python blocks run in the repository's root, as the README says."""
    assert needs is None
    run([sys.executable, "-c", code], cwd=ROOT, env=library_environment())


def test_the_first_command_gives_a_program_that_starts(tmp_path):
    """The first example in C, compiled by the command above it, prints its result."""
    [command] = re.findall(r"^    (cc program\.c -Iinclude .*)$", README.read_text(), re.MULTILINE)
    for folder in ("include", "target"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    (tmp_path / "program.c").write_text(C[0].values[0])
    environment = library_environment()
    environment.pop("LD_LIBRARY_PATH", None)
    assert run(["sh", "-ec", f"{command}; ./program"], cwd=tmp_path, env=environment) == "300\n"


@pytest.mark.parametrize("code, needs", C)
def test_c(code, needs, tmp_path):
    """C blocks compile without warnings, link with the library alone, and run."""
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(code)
    link = [f"-I{ROOT / 'include'}", f"-L{RELEASE}", "-lgpuvec", f"-Wl,-rpath,{RELEASE}"]
    compile_c(source, program, *link)
    run([program], env=library_environment())


N = 1000
BEFORE = np.arange(N, dtype=np.float32)


@pytest.fixture
def add(monkeypatch) -> Callable:
    """The function that the README declares through ctypes alone."""
    [code] = [block.values[0] for block in PYTHON if "ctypes.CDLL" in block.values[0]]
    monkeypatch.chdir(ROOT)
    names: dict = {}
    exec(code, names)
    return names["add"]


def column_that_is_read_only(_):
    pandas = pytest.importorskip("pandas", minversion="3")
    column = pandas.DataFrame({"values": BEFORE.copy()})["values"].to_numpy()
    assert not column.flags.writeable
    return column


def mapped_read_only(folder):
    BEFORE.tofile(folder / "values")
    return np.memmap(folder / "values", np.float32, mode="r")


def view_that_is_read_only(_):
    owner = BEFORE.copy()
    owner.flags.writeable = False
    return owner[:]


# Outputs that must not be written, or that are not arrays of N floats.
WRONG_OUTPUTS = {
    "a read-only column of pandas": column_that_is_read_only,
    "a read-only view": view_that_is_read_only,
    "an array of immutable bytes": lambda _: np.frombuffer(BEFORE.tobytes(), np.float32),
    "a read-only memmap": mapped_read_only,
    "bytes": lambda _: BEFORE.tobytes(),
    "bytearray": lambda _: bytearray(BEFORE.tobytes()),
    "array.array": lambda _: array.array("f", BEFORE),
    "an anonymous map": lambda _: mmap.mmap(-1, BEFORE.nbytes),
    "a shorter array": lambda _: BEFORE[: N - 1].copy(),
    "a longer array": lambda _: np.zeros(N + 1, np.float32),
    "every other element": lambda _: np.zeros(2 * N, np.float32)[::2],
    "a misaligned array": lambda _: np.zeros(4 * N + 1, np.uint8)[1:].view(np.float32),
    "another type": lambda _: np.zeros(N, np.float64),
    "a matrix": lambda _: np.zeros((N, 1), np.float32),
}


@pytest.mark.parametrize("output", WRONG_OUTPUTS)
def test_a_wrong_output_raises_and_is_not_written(add, tmp_path, output):
    """The README's declarations keep ctypes from writing where Python must not write."""
    out = WRONG_OUTPUTS[output](tmp_path)
    before = bytes(memoryview(np.ascontiguousarray(out)))
    with pytest.raises((TypeError, ValueError, AttributeError, ctypes.ArgumentError)):
        add(BEFORE, BEFORE, out)
    assert bytes(memoryview(np.ascontiguousarray(out))) == before


@pytest.mark.parametrize("which", ["a", "b"])
def test_a_wrong_input_raises(add, which):
    """A short input would be read past its end."""
    wrong = {"short": BEFORE[:-1], "strided": np.zeros(2 * N, np.float32)[::2]}
    for array_ in wrong.values():
        out = np.zeros(N, np.float32)
        with pytest.raises((ValueError, ctypes.ArgumentError)):
            add(**{"a": BEFORE, "b": BEFORE, "out": out, which: array_})
        assert not out.any()


def test_read_only_inputs_are_taken(add, tmp_path):
    a, b = mapped_read_only(tmp_path), view_that_is_read_only(tmp_path)
    out = np.zeros(N, np.float32)
    add(a, b, out)
    assert (out == 2 * BEFORE).all()


def test_demo(placement):
    """The demo prints a line for each operation and memory, and exits with 0."""
    environment = library_environment(GPUVEC_PLACEMENT=placement.name.lower())
    output = run([sys.executable, ROOT / "python_examples/demo.py"], env=environment)
    for operation in ("add float32", "add int32", "dot float32"):
        for memory in ("pageable", "pinned"):
            assert re.search(rf"^{operation} +{memory} .* ms", output, flags=re.MULTILINE), output


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(placement, name):
    """Each example checks its own results and prints a summary."""
    environment = library_environment(GPUVEC_PLACEMENT=placement.name.lower())
    assert run([sys.executable, ROOT / f"python_examples/{name}.py"], env=environment)


def test_demo_reports_errors():
    """The demo exits with 1 and a reason if the library cannot be loaded."""
    environment = library_environment(GPUVEC_PLACEMENT="nowhere")
    script = [sys.executable, ROOT / "python_examples/demo.py"]
    with pytest.raises(AssertionError, match="GPUVEC_PLACEMENT is 'nowhere'"):
        run(script, env=environment)
