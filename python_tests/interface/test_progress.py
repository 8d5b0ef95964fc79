"""Tools show progress on stderr where it is wanted, also without tqdm; the library shows none."""

import os
import subprocess
import sys

import pytest
from bindings import ROOT
from programs import library_environment

COUNTS = """
from progress import progress
with progress(what="counting", total=40, unit="steps") as shown:
    for step in progress(range(40)):
        shown.set_description("counting steps")
        shown.update(1)
    shown.write("a line")
"""


@pytest.mark.parametrize("has_tqdm", [False, True])
@pytest.mark.parametrize("asked", ["", "0", "1"])
def test_a_file_has_progress_only_if_it_is_asked_for(tmp_path, has_tqdm, asked):
    if has_tqdm:
        pytest.importorskip("tqdm")
    else:
        (tmp_path / "tqdm.py").write_text("raise ImportError\n")
    variables = library_environment(PROGRESS=asked)
    variables["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{variables['PYTHONPATH']}"
    command = [sys.executable, "-c", COUNTS]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout == "a line\n"
    assert ("counting" in done.stderr) == (has_tqdm and asked == "1")


def test_the_library_shows_no_progress():
    for module in (ROOT / "python/gpuvec").glob("*.py"):
        assert "tqdm" not in module.read_text(), module
