"""Tools show their progress on stderr: on terminals, or where it is asked for.

The library itself shows none.
"""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from importlib.util import find_spec

import pytest
from bindings import ROOT
from programs import library_environment

# Counts to 40, with a line of output on the way; 0.2 s are long enough for a text.
COUNTS = """
import time
from progress import progress
with progress(what="counting", total=40, unit="steps") as shown:
    for step in range(40):
        time.sleep(0.01)
        if step == 35:
            shown.write("a line")
        shown.update(1)
"""
ITERATES = """
import time
from progress import progress
assert [time.sleep(0.01) or each for each in progress(range(40), "counting")] == list(range(40))
print("a line")
"""
LIBRARIES = [pytest.param(False, id="plain")]
if find_spec("tqdm"):
    LIBRARIES.append(pytest.param(True, id="tqdm"))


def environment(tmp_path, has_tqdm: bool, asked: str) -> dict:
    """Returns an environment in which tqdm can be imported, or not."""
    if not has_tqdm:
        (tmp_path / "tqdm.py").write_text("raise ImportError\n")
    variables = library_environment(PROGRESS=asked)
    variables["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{variables['PYTHONPATH']}"
    return variables


def outputs(script: str, variables: dict, is_terminal: bool) -> tuple[str, str]:
    """Returns what a script prints, and what it writes to stderr, a terminal or a pipe."""
    command = [sys.executable, "-c", script]
    if not is_terminal:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        return done.stdout, done.stderr
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    with (
        os.fdopen(ours, "rb", buffering=0) as terminal,
        subprocess.Popen(
            command, env=variables, stdout=subprocess.PIPE, stderr=theirs, text=True
        ) as process,
    ):
        os.close(theirs)
        shown = b"".join(iter(lambda: read(terminal), b"")).decode()
        printed = process.stdout.read()
    assert process.returncode == 0, shown
    return printed, shown


def read(terminal) -> bytes:
    """Reads what a process writes to a terminal; returns nothing at its end, an error to Linux."""
    try:
        return terminal.read(1 << 12)
    except OSError:
        return b""


@pytest.mark.parametrize("script", [COUNTS, ITERATES])
@pytest.mark.parametrize("has_tqdm", LIBRARIES)
@pytest.mark.parametrize(
    "asked, is_terminal, is_shown",
    [("", False, False), ("", True, True), ("0", True, False)],
)
def test_progress_is_shown_on_terminals(tmp_path, script, has_tqdm, asked, is_terminal, is_shown):
    printed, shown = outputs(script, environment(tmp_path, has_tqdm, asked), is_terminal)
    assert printed == "a line\n"
    assert ("counting" in shown and "40" in shown) == is_shown
    assert is_shown or not shown.strip()


@pytest.mark.parametrize("has_tqdm", LIBRARIES)
def test_progress_is_written_to_a_file_where_it_is_asked_for(tmp_path, has_tqdm):
    script = "import progress; progress.IN_FILE = 0.1" + COUNTS
    printed, shown = outputs(script, environment(tmp_path, has_tqdm, "1"), is_terminal=False)
    assert printed == "a line\n"
    assert "counting" in shown and "of 40 steps" in shown or "/40" in shown


@pytest.mark.parametrize("has_tqdm", LIBRARIES)
@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_file_that_is_summed_shows_its_progress_on_terminals(tmp_path, has_tqdm, is_terminal):
    example = str(ROOT / "python_examples/exact_file.py")
    script = f"import runpy; runpy.run_path({example!r}, run_name='__main__')"
    printed, shown = outputs(script, environment(tmp_path, has_tqdm, ""), is_terminal)
    assert printed.count("by NumPy") == 3
    assert ("pieces" in shown and "1001" in shown) == is_terminal


def test_the_library_shows_no_progress():
    for module in (ROOT / "python/gpuvec").glob("*.py"):
        assert "tqdm" not in module.read_text(), module
