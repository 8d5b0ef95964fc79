"""A profiler that NVTX's NVTX_INJECTION64_PATH names gets a range for each call on arrays."""

from pathlib import Path

import pytest
from programs import compile_c, run_python, run_silently

PRELUDE = """
import threading
import numpy as np
import gpuvec
from bindings import Status, lib
one = np.ones(10, "f4")
"""


@pytest.fixture(scope="module")
def tool(tmp_path_factory) -> Path:
    """Compiles a profiler's library, which prints ranges."""
    library = tmp_path_factory.mktemp("nvtx") / "tool.so"
    compile_c(Path(__file__).with_name("nvtx_tool.c"), library, "-std=c11", "-shared", "-fPIC")
    return library


def test_each_call_is_a_range(tool):
    """It has the operation's name or the expression's text, and ends, also where the call fails."""
    script = """
    gpuvec.add(one, one)
    gpuvec.sum(one)
    gpuvec.evaluate("a\\t + 1", a=one)
    gpuvec.evaluate("a" + " + a" * 50, a=one)
    assert lib.vector_add(None, None, None, 5) == Status.ERROR_NULL
    gpuvec.version(), gpuvec.get_num_threads()
    """
    lines = run_python(PRELUDE + script.replace("\n    ", "\n"), NVTX_INJECTION64_PATH=str(tool))
    names = ["add_f32", "sum_f32", '"a? + 1"', f'"{("a" + " + a" * 50)[:60]}..."', "add_f32"]
    assert lines.splitlines() == [line for name in names for line in (f"gpuvec: {name}", "end 0")]


def test_ranges_and_lines_of_the_log_together(tool, tmp_path):
    """Neither needs the other."""
    variables = {"NVTX_INJECTION64_PATH": str(tool), "GPUVEC_LOG": f"run:{tmp_path}/log"}
    assert run_python(PRELUDE + "gpuvec.add(one, one)", **variables) == "gpuvec: add_f32\nend 0\n"
    assert (tmp_path / "log").read_text().startswith("gpuvec: add_f32 n=10 ")


def test_threads_have_ranges_of_their_own(tool):
    """The nesting is each thread's. The first call attaches the profiler."""
    script = """
gpuvec.add(one, one)
def calls():
    for _ in range(100):
        gpuvec.add(one, one)
threads = [threading.Thread(target=calls) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
    lines = run_python(PRELUDE + script, NVTX_INJECTION64_PATH=str(tool)).splitlines()
    assert sorted(lines) == ["end 0"] * 401 + ["gpuvec: add_f32"] * 401


@pytest.mark.parametrize("path", ["", "/nowhere/tool.so", "libc.so.6", __file__])
def test_without_a_tool_nothing_is_told(path):
    """Neither a library that is missing nor one without NVTX's function is an error."""
    run_silently(PRELUDE + "gpuvec.add(one, one)", NVTX_INJECTION64_PATH=path)
