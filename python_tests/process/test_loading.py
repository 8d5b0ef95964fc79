"""Loading the library: its dependencies, no side effects, and several copies."""

import shutil
import textwrap
from pathlib import Path

import pytest
from bindings import LIBRARY, ROOT, lib
from programs import run, run_python, run_silently

pytestmark = pytest.mark.wheel

# Compares a process before and after the library is loaded.
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
    """Returns the library's dynamic section as readelf prints it."""
    return run(["readelf", "-d", "--wide", LIBRARY])


def test_it_needs_only_the_c_library(dynamic_section):
    """No driver, no CUDA, no C++ library: glibc, its loader, and gcc's unwinder.

    Threads and dlopen are libraries of their own in glibcs before 2.34.
    """
    needed = [
        line.split("[")[1].rstrip("]") for line in dynamic_section.splitlines() if "NEEDED" in line
    ]
    glibc = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}
    assert needed and set(needed) <= {*glibc, "libgcc_s.so.1"}


def test_it_stays_once_loaded(dynamic_section):
    """Its threads and fork handlers must not lose their code."""
    [flags] = [line for line in dynamic_section.splitlines() if "FLAGS_1" in line]
    assert "NODELETE" in flags


def test_it_has_its_name(dynamic_section):
    """Programs that link it look for it by this name."""
    assert f"Library soname: [libgpuvec.so.{lib.gpuvec_abi_version()}]" in dynamic_section


def test_it_has_no_search_path(dynamic_section):
    """It contains no path of the build machine."""
    assert "RPATH" not in dynamic_section and "RUNPATH" not in dynamic_section


def test_it_names_no_folder_of_this_machine():
    """Its bytes do not tell where it was built, nor where cargo keeps packages."""
    content = LIBRARY.read_bytes()
    for folder in (ROOT, Path.home()):
        assert f"{folder}/".encode() not in content


def test_it_is_small(tmp_path):
    """Less than 3.5 MB, without debug information."""
    stripped = tmp_path / "libgpuvec.so"
    shutil.copy(LIBRARY, stripped)
    run(["strip", stripped])
    assert stripped.stat().st_size < 3_500_000


def test_no_stack_is_executable():
    """A library that needs an executable stack makes all stacks of its program executable."""
    lines = run(["readelf", "-l", "--wide", LIBRARY]).splitlines()
    [stack] = [line for line in lines if "GNU_STACK" in line]
    assert "RWE" not in stack


def test_loading_does_nothing():
    """No thread, no driver, no open file, no signal handler, no environment variable."""
    run_python(AROUND_LOADING + "assert seen() == before and not before['driver']\n")


def test_queries_do_nothing():
    """Queries that need no driver have no side effects either."""
    run_python(
        AROUND_LOADING
        + "library.gpuvec_version(), library.gpuvec_abi_version(), library.gpuvec_last_error()\n"
        + "library.gpuvec_status_string(0), library.gpuvec_get_placement()\n"
        + "assert seen() == before and not before['driver']\n"
    )


@pytest.mark.parametrize("placement", ["auto", "cpu"])
def test_nothing_is_printed(placement):
    """Results, errors and a missing GPU write nothing to stdout or stderr."""
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


# Mappings that allocators and the driver may add in any number of rounds.
MAPPINGS_MARGIN = 16


# Loads the library by hand; `bindings` would keep it open.
BY_HAND = """
import _ctypes, ctypes, os
import numpy as np

PATH = os.environ["GPUVEC_LIB"]

def load(mode, path=PATH):
    library = ctypes.CDLL(path, mode=mode)
    library.vector_add.argtypes = [*[ctypes.c_void_p] * 3, ctypes.c_size_t]
    library.pinned_alloc.restype = ctypes.c_void_p
    library.pinned_alloc.argtypes = [ctypes.c_size_t]
    library.pinned_free.argtypes = [ctypes.c_void_p]
    return library

def check(library, *sizes):
    for n in sizes:
        a = np.arange(n, dtype=np.float32)
        out = np.zeros(n, np.float32)
        assert library.vector_add(a.ctypes.data, a.ctypes.data, out.ctypes.data, n) == 0
        assert (out == a + a).all()
"""


@pytest.mark.parametrize("mode", ["RTLD_LOCAL", "RTLD_GLOBAL"])
def test_it_is_opened_and_closed_again_and_again(placement_variables, mode):
    script = f"""
    def mappings():
        return open("/proc/self/maps").read().splitlines()

    def rounds(count):
        for _ in range(count):
            library = load(os.RTLD_NOW | os.{mode})
            check(library, 10, 300_000)
            _ctypes.dlclose(library._handle)

    check(load(os.RTLD_NOW | os.{mode}), 6_000_001)
    rounds(100)  # by then all threads have begun and have their stacks and arenas
    before = mappings()
    rounds(100)
    after = mappings()
    of_the_library = [[line for line in lines if PATH in line] for lines in (before, after)]
    assert of_the_library[0] == of_the_library[1] != []
    assert len(after) - len(before) <= {MAPPINGS_MARGIN}, (len(before), len(after))
    """
    run_silently(BY_HAND + textwrap.dedent(script), **placement_variables)


def test_its_own_names_come_first(placement_variables):
    """The library works with RTLD_DEEPBIND, which some programs load plug-ins with."""
    script = "check(load(os.RTLD_NOW | os.RTLD_DEEPBIND), 10, 300_000, 6_000_001)"
    run_silently(BY_HAND + script, **placement_variables)


def test_two_copies_in_one_process(placement_variables, tmp_path):
    """Two plug-ins may each bring a copy, which share nothing."""
    copy = shutil.copy(LIBRARY, tmp_path / "libgpuvec_copy.so")
    script = f"""
    from concurrent.futures import ThreadPoolExecutor
    copies = [load(os.RTLD_NOW), load(os.RTLD_NOW, {str(copy)!r})]
    assert open("/proc/self/maps").read().count("libgpuvec_copy.so") > 0
    with ThreadPoolExecutor(4) as pool:
        for work in [pool.submit(check, copies[i % 2], 10, 300_000, 6_000_001) for i in range(4)]:
            work.result()
    addresses = [library.pinned_alloc(4096) for library in copies]
    assert copies[0].pinned_free(ctypes.c_void_p(addresses[1])) == 106
    for library, address in zip(copies, addresses):
        assert library.pinned_free(address) == 0
    placement = copies[0].gpuvec_get_placement()
    assert copies[1].gpuvec_set_placement(2 - placement) == 0
    assert copies[0].gpuvec_get_placement() == placement
    for library in copies:
        if library.gpuvec_get_placement() != 1 or library.gpuvec_device_count() > 0:
            check(library, 10, 300_000, 6_000_001)
    """
    run_silently(BY_HAND + textwrap.dedent(script), **placement_variables)
