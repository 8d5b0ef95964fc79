"""Loading the library: what it needs, and that nothing happens."""

import shutil

import pytest
from bindings import LIBRARY
from programs import run, run_python

MIB = 1 << 20

# What is there of a process before and after the library is loaded.
AROUND_LOADING = """
import ctypes, os, signal

def seen():
    maps = open("/proc/self/maps").read()
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
        "driver": "libcuda" in maps or "nvidia" in maps,
        "handlers": [signal.getsignal(number) for number in signal.valid_signals()],
        "environment": dict(os.environ),
        "directory": os.getcwd(),
    }

before = seen()
library = ctypes.CDLL(os.environ["GPUVEC_LIB"])
"""


@pytest.fixture(scope="module")
def dynamic_section():
    """What the library asks of the dynamic linker."""
    return run(["readelf", "-d", "--wide", LIBRARY])


def test_it_needs_only_the_c_library(dynamic_section):
    """No driver, no CUDA, no C++ library: glibc, its loader, and gcc's unwinder."""
    needed = [
        line.split("[")[1].rstrip("]") for line in dynamic_section.splitlines() if "NEEDED" in line
    ]
    allowed = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
    assert needed and set(needed) <= allowed


def test_it_stays_once_loaded(dynamic_section):
    """Its threads and fork handlers must not lose their code."""
    [flags] = [line for line in dynamic_section.splitlines() if "FLAGS_1" in line]
    assert "NODELETE" in flags


def test_it_has_its_name(dynamic_section):
    """Programs that link it look for it by this name."""
    assert "Library soname: [libgpuvec.so]" in dynamic_section


def test_it_has_no_search_path(dynamic_section):
    """No path of the machine that built it is left in it."""
    assert "RPATH" not in dynamic_section and "RUNPATH" not in dynamic_section


def test_it_is_small(tmp_path):
    """Less than a megabyte, without debug information."""
    stripped = tmp_path / "libgpuvec.so"
    shutil.copy(LIBRARY, stripped)
    run(["strip", stripped])
    assert stripped.stat().st_size < MIB


def test_no_stack_is_executable():
    """A library that asked for it would make every stack of the program so."""
    lines = run(["readelf", "-l", "--wide", LIBRARY]).splitlines()
    [stack] = [line for line in lines if "GNU_STACK" in line]
    assert "RWE" not in stack


def test_loading_does_nothing():
    """No thread, no driver, no open file, no signal handler, no environment variable."""
    run_python(AROUND_LOADING + "assert seen() == before and not before['driver']\n")


def test_questions_do_nothing():
    """Nor do questions that need no driver."""
    run_python(
        AROUND_LOADING
        + "library.gpuvec_version(), library.gpuvec_abi_version(), library.gpuvec_last_error()\n"
        + "library.gpuvec_status_string(0), library.gpuvec_get_placement()\n"
        + "assert seen() == before and not before['driver']\n"
    )


def test_closing_keeps_it():
    """After dlclose its code is still there, for its threads."""
    script = """
    import _ctypes, ctypes, os
    import numpy as np
    path = os.environ["GPUVEC_LIB"]
    library = ctypes.CDLL(path)
    array = np.ones(1_000_000, np.float32)
    pointer = array.ctypes.data_as(ctypes.c_void_p)
    for _ in range(2):
        assert library.vector_add(pointer, pointer, pointer, ctypes.c_size_t(array.size)) == 0
        _ctypes.dlclose(library._handle)
        assert os.path.basename(path) in open("/proc/self/maps").read()
        library = ctypes.CDLL(path)
    """
    run_python(script)


@pytest.mark.parametrize("placement", ["auto", "cpu"])
def test_nothing_is_printed(placement):
    """Neither results nor errors nor a missing GPU write to stdout or stderr."""
    script = """
    import os
    os.dup2(1, 2)
    import numpy as np
    from arrays import compute
    from bindings import lib
    from operations import OPERATIONS
    assert lib.vector_add(None, None, None, 1) == 101
    lib.gpuvec_init(), lib.gpuvec_why_cpu()
    compute(OPERATIONS[0], *np.ones((2, 1_100_001), np.float32))
    """
    assert run_python(script, GPUVEC_PLACEMENT=placement) == ""
