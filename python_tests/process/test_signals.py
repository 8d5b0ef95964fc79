"""Signals: handlers run on the library's threads only for faults, and may call the library.

Each case runs in a process of its own.
"""

import pytest
from programs import run_silently


@pytest.mark.parametrize("timer", ["ITIMER_REAL", "ITIMER_PROF"])
def test_a_storm_of_signals_changes_no_result(placement_variables, timer):
    """A handler runs every 100 µs, and does not restart interrupted system calls."""
    script = f"""
    import signal
    from host import LARGE, MIDDLING, SMALL, cases, check, check_memory
    for n in (SMALL, MIDDLING, LARGE):
        cases(n)
    count = 0

    def on_signal(*_):
        global count
        count += 1

    for name in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(name, on_signal)
    signal.setitimer(signal.{timer}, 1e-4, 1e-4)
    for _ in range(5):
        check(SMALL, MIDDLING, LARGE)
        check_memory()
    signal.setitimer(signal.{timer}, 0)
    assert count > 0
    """
    run_silently(script, **placement_variables)


def test_the_librarys_threads_block_every_signal_but_faults():
    """On the library's threads the host's handlers run only for the threads' own faults."""
    script = """
    import signal
    from host import LARGE, blocked_signals_of_the_librarys_threads, check
    check(LARGE)
    masks = list(blocked_signals_of_the_librarys_threads())
    assert masks
    faults = {signal.Signals[f"SIG{name}"] for name in "SEGV BUS FPE ILL TRAP SYS".split()}
    blockable = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    for mask in masks:
        blocked = {number for number in blockable if mask >> (number - 1) & 1}
        assert blockable - blocked == faults, hex(mask)
    """
    run_silently(script, GPUVEC_PLACEMENT="cpu", GPUVEC_NUM_THREADS="4")


@pytest.mark.parametrize("attempt", range(5))
def test_signals_interrupt_none_of_the_librarys_threads(program, attempt):
    """A storm of signals does not reach the library's threads, not even while they start."""
    program("signalled", GPUVEC_PLACEMENT="cpu", GPUVEC_NUM_THREADS="64")


@pytest.mark.parametrize("signal", ["SEGV", "BUS"])
def test_pages_are_provided_on_demand(program, signal):
    """A host that provides pages in a SIGSEGV or SIGBUS handler may pass arrays in such pages."""
    environment = {"GPUVEC_PLACEMENT": "cpu", "GPUVEC_NUM_THREADS": "4"}
    program("on_demand", signal, **environment)


@pytest.mark.parametrize("threads", [1, 4])
def test_handlers_call_the_library(program, threads):
    """A handler's call is right or REENTRANT, and leaves the interrupted call's error as it is."""
    environment = {"GPUVEC_PLACEMENT": "cpu", "GPUVEC_NUM_THREADS": str(threads)}
    program("reentrant", **environment)


@pytest.mark.parametrize("calls", [0, 1], ids=["child ends", "child calls"])
def test_handlers_fork(program, calls):
    """A handler may fork during any call; the child's call returns, right or with an error."""
    environment = {"GPUVEC_PLACEMENT": "cpu", "GPUVEC_NUM_THREADS": "1"}
    program("forking_handler", calls, **environment)
