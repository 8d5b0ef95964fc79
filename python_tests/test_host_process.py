"""What the host process may do around calls: load twice, exit anyhow, run short.

Each case runs in a process of its own, with whatever driver there is.
"""

import os
import shutil
import sys
import textwrap

import pytest
from bindings import LIBRARY
from programs import HERE, library_environment, run, run_silently

# What allocators and the driver may map for themselves, however many rounds there are.
MAPPINGS_MARGIN = 16

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


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
def test_it_is_opened_and_closed_again_and_again(where, mode):
    script = f"""
    def mappings():
        return open("/proc/self/maps").read().splitlines()

    def rounds(count):
        for _ in range(count):
            library = load(os.RTLD_NOW | os.{mode})
            check(library, 10, 300_000)
            _ctypes.dlclose(library._handle)

    check(load(os.RTLD_NOW | os.{mode}), 6_000_001)
    rounds(5)
    before = mappings()
    rounds(100)
    after = mappings()
    of_the_library = [[line for line in lines if PATH in line] for lines in (before, after)]
    assert of_the_library[0] == of_the_library[1] != []
    assert len(after) - len(before) <= {MAPPINGS_MARGIN}, (len(before), len(after))
    """
    run_silently(BY_HAND + textwrap.dedent(script), **where)


def test_its_own_names_come_first(where):
    """RTLD_DEEPBIND, which plug-ins of other programs are loaded with."""
    script = "check(load(os.RTLD_NOW | os.RTLD_DEEPBIND), 10, 300_000, 6_000_001)"
    run_silently(BY_HAND + script, **where)


def test_two_copies_in_one_process(where, tmp_path):
    """Two programs' plug-ins may each bring one: they know nothing of each other."""
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
    run_silently(BY_HAND + textwrap.dedent(script), **where)


@pytest.mark.parametrize("start", ["main", "thread", "during"])
@pytest.mark.parametrize("way", ["exit", "_exit", "quick_exit"])
def test_exit(where, program, way, start):
    """With pinned memory alive, from the main thread, from another, and during others' calls."""
    program("leaving", way, start, **where)


def test_exit_of_python_without_a_farewell(where):
    run_silently(
        "from host import *\ncheck_all()\nkept = pinned_empty(9, 'f')\nos._exit(0)", **where
    )


def test_sys_exit_among_a_pool_of_threads(where):
    script = """
    import sys
    from concurrent.futures import ThreadPoolExecutor
    from host import LARGE, MIDDLING, check
    check(MIDDLING, LARGE)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(16):
            pool.submit(check, MIDDLING, LARGE)
        sys.exit(0)
    """
    run_silently(script, **where)


def test_end_of_python_with_daemon_threads_inside_calls(where):
    script = """
    import threading
    from host import MIDDLING, check
    check(MIDDLING)
    busy = threading.Barrier(9)

    def work():
        busy.wait()
        while True:
            check(MIDDLING)

    for _ in range(8):
        threading.Thread(target=work, daemon=True).start()
    busy.wait()
    check(MIDDLING)
    """
    run_silently(script, **where)


@pytest.mark.parametrize(
    "way", ["sys.exit(0)", "os._exit(0)", "threading.Thread(target=work).start()"]
)
def test_exit_with_handles_alive(where, way):
    """Streams, events, device memory and registered arrays, with work under way."""
    script = f"""
    import ctypes, os, sys, threading
    import numpy as np
    from bindings import lib

    array = np.ones(300_000, np.float32)
    # It must outlive the work: Python is not to free it when it ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(array))
    assert lib.gpuvec_host_register(array.ctypes.data, array.nbytes) == 0
    memory = lib.gpuvec_device_alloc(array.nbytes, 0)
    stream, event = lib.gpuvec_stream_create(0), lib.gpuvec_event_create()
    assert memory and stream and event

    def work():
        for _ in range(50):
            assert lib.gpuvec_copy(memory, array.ctypes.data, array.nbytes, stream) == 0
            assert lib.gpuvec_add_f32(memory, memory, memory, array.size, stream) == 0
        assert lib.gpuvec_event_record(event, stream) == 0

    work()
    {way}
    """
    run_silently(script, **where)


def test_ten_thousand_short_threads_leave_nothing(where, program):
    """No memory but a megabyte's margin, no thread, no open file."""
    program("short_threads", **where)


@pytest.mark.parametrize("threads", [1, 16])
@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("extra", [0, 4096, 65_536, 1_000_000, 10_000_000])
def test_little_address_space(program, extra, before, threads):
    """Without calls before and with one; on the CPU: the driver's needs are not the library's."""
    settings = {"GPUVEC_PLACEMENT": "cpu", "GPUVEC_NUM_THREADS": str(threads)}
    program("short_of_memory", extra, before, 0, **settings)


@pytest.mark.parametrize("threads", [1, 16])
@pytest.mark.parametrize("before", [0, 1])
def test_no_memory_at_all(program, before, threads):
    """Not a byte left, for malloc neither."""
    settings = {"GPUVEC_PLACEMENT": "cpu", "GPUVEC_NUM_THREADS": str(threads)}
    program("short_of_memory", 0, before, 1, **settings)


def test_nothing_may_be_locked_in_memory(where):
    script = """
    import resource
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
    from host import check_all
    check_all()
    """
    run_silently(script, **where)


@needs_root
def test_no_thread_may_be_started():
    """The calling thread does all the work; on the CPU, as the driver needs threads."""
    script = """
    import resource, threading
    from host import check_all, threads
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    os.setuid(65534)
    before = threads()
    try:
        threading.Thread(target=print).start()
    except RuntimeError:
        check_all()
        assert threads() == before
    else:
        raise AssertionError("a thread could be started")
    """
    run_silently(script, GPUVEC_PLACEMENT="cpu", GPUVEC_NUM_THREADS="16")


@needs_root
def test_the_process_may_become_another_users(where):
    """The C library asks every thread for that, by a signal that must not be blocked."""
    script = """
    from host import LARGE, MIDDLING, check
    check(MIDDLING, LARGE)
    os.setuid(65534)
    check(MIDDLING, LARGE)
    """
    run_silently(script, **where)


def test_standard_files_are_closed(where):
    """What is opened then gets their numbers: nothing may be written there, or closed."""
    script = """
    from host import check_all
    for number in range(3):
        os.close(number)
    check_all()
    os._exit(0)
    """
    run_silently(script, **where)


def test_standard_files_are_others(where, tmp_path):
    script = f"""
    from host import check_all
    for number in range(3):
        os.close(number)
    opened = [os.open({str(tmp_path)!r} + f"/{{n}}", os.O_RDWR | os.O_CREAT) for n in range(3)]
    code = 1
    try:
        assert opened == [0, 1, 2]
        check_all()
        assert [os.fstat(number).st_size for number in opened] == [0, 0, 0]
        code = 0
    finally:
        os._exit(code)
    """
    run_silently(script, **where)


@pytest.mark.parametrize("value", [None, "", "/nowhere", "\n:;\\"], ids=repr)
def test_environments_of_other_kinds(value):
    """Folders that programs are told of are missing, or are none; there may be no driver then."""
    environment = library_environment()
    for name in ("HOME", "LD_LIBRARY_PATH", "TMPDIR", "PATH", "LANG", "LC_ALL", "USER"):
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    script = "from host import check_all; check_all()"
    run([sys.executable, "-c", script], env=environment, cwd=HERE)
