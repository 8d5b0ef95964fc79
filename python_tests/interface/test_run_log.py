"""GPUVEC_LOG=run: a line on stderr for each call on arrays; without it, none."""

import re
import subprocess
import sys
import textwrap

import pytest
from bindings import ROOT, Choice, Reason
from on_fake_driver import environment, needs_fake_driver
from programs import library_environment, run_silently

TIME = r"\d+(?:\.\d+)? (?:ns|us|ms|s)"
CHOICE = "|".join(choice.name.lower().replace("_", " ") for choice in Choice if choice)
REASON = "|".join(reason.name.lower().replace("_", " ") for reason in Reason if reason)
PLACE = rf"(?:{CHOICE})(?: \([^)]*\))?"
PREDICTED = rf"(?:{CHOICE}) {TIME}"
LINE = re.compile(
    r'gpuvec: (?:(?P<what>"[ -~]{0,63}"|[a-z0-9_ ]+) n=(?P<n>\d+)|call) '
    r"(?:"
    rf"(?P<where>{PLACE}) (?P<time>{TIME}), (?P<reason>{REASON})"
    rf"(?:; predicted: (?P<predicted>{PREDICTED}(?:, {PREDICTED})*))?"
    rf"|(?P<queued>queued on gpu \([^)]*\)) {TIME}"
    rf"|(?P<nothing>nothing to do) {TIME}"
    rf"|failed with (?P<status>GPUVEC_\w+) after {TIME}"
    r")"
)

PRELUDE = """
import ctypes, os, signal, sys, threading
import numpy as np
import gpuvec
from bindings import Status, last_error, last_run, lib

def add(n, dtype="f4"):
    a = np.ones(n, dtype)
    return gpuvec.add(a, a)
"""


def stderr_of(script: str, **variables: str) -> str:
    """Runs a script that must succeed in a process of its own, and returns its stderr."""
    # Python 3.12 warns of a fork beside threads.
    python = [sys.executable, "-W", "ignore::DeprecationWarning"]
    done = subprocess.run(
        [*python, "-c", PRELUDE + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env=library_environment(**variables),
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def logged(script: str, **variables: str) -> list[dict]:
    """Runs a script with the log, and returns the parts of each line. All must be whole."""
    lines = stderr_of(script, GPUVEC_LOG="run", **variables).splitlines()
    found = [LINE.fullmatch(line) for line in lines]
    assert all(found), [line for line, match in zip(lines, found) if not match]
    return [match.groupdict() for match in found]


def test_a_line_for_each_call_on_cores():
    """It has the operation and its type, the length, the place and the reason."""
    found = logged(
        """
        add(10)
        add(3_000_000, "f8")
        gpuvec.sum(np.ones(7))
        gpuvec.last_run(), gpuvec.get_placement(), gpuvec.why_cpu()
        one = np.zeros(5, "u1")
        assert lib.gpuvec_copy(one.ctypes.data, bytes(5), 5, None) == Status.OK
        """,
        GPUVEC_PLACEMENT="cpu",
        GPUVEC_NUM_THREADS="2",
    )
    assert [(line["what"], line["n"], line["where"]) for line in found] == [
        ("add_f32", "10", "calling core"),
        ("add_f64", "3000000", "cores (2 threads)"),
        ("sum_f64", "7", "calling core"),
        ("copy", "5", "calling core"),
    ]
    assert {line["reason"] for line in found} == {"asked for"}


def test_the_line_and_the_last_run_agree():
    """With the log every call is measured, and tells where it ran."""
    [line] = logged(
        """
        add(1000)
        run = gpuvec.last_run()
        assert (run.choice, run.reason) == ("calling core", "fastest") and run.time > 0
        """,
        GPUVEC_PLACEMENT="auto",
    )
    assert (line["where"], line["reason"]) == ("calling core", "fastest")


def test_expressions_have_their_text():
    """The text is truncated, and shown in one line whatever it contains."""
    short, long, broken = logged(
        """
        a = np.ones(5)
        gpuvec.evaluate("sqrt(a*a + a)", a=a)
        gpuvec.evaluate("a" + " + a" * 50, a=a)
        gpuvec.evaluate("a +\\n\\ta", a=a)
        """
    )
    assert (short["what"], short["n"]) == ('"sqrt(a*a + a)"', "5")
    assert long["what"] == '"' + ("a" + " + a" * 50)[:60] + '..."'
    assert broken["what"] == '"a +??a"'


def test_accumulators():
    """An addition has the operation of the accumulator."""
    [line] = logged("gpuvec.Accumulator('sum', 'f8').add(np.ones(9))")
    assert (line["what"], line["n"]) == ("accumulator sum_f64", "9")


def test_failed_calls_and_calls_with_nothing_to_do():
    """A failure has its status."""
    found = logged(
        """
        lib.vector_add(None, None, None, 5)
        lib.vector_add(None, None, None, 0)
        lib.gpuvec_min_f32(None, None, 0, None)
        lib.gpuvec_expr_run(12345, None, None, 5, None)
        lib.gpuvec_accumulator_add(12345, None, None, 6, None)
        """
    )
    assert [(line["what"], line["n"], line["status"] or line["nothing"]) for line in found] == [
        ("add_f32", "5", "GPUVEC_ERROR_NULL"),
        ("add_f32", "0", "nothing to do"),
        ("min_f32", "0", "GPUVEC_ERROR_EMPTY"),
        ("expression", "5", "GPUVEC_ERROR_HANDLE"),
        ("accumulator", "6", "GPUVEC_ERROR_HANDLE"),
    ]


def test_another_variable_that_is_wrong():
    """The call fails before it says what it is."""
    [line] = logged("lib.vector_add(None, None, None, 0)", GPUVEC_PLACEMENT="x")
    assert (line["what"], line["status"]) == (None, "GPUVEC_ERROR_ENVIRONMENT")


@needs_fake_driver
def test_calls_on_gpus():
    """A line names the devices and the transfers, and what was queued on a stream."""
    found = logged(
        """
        add(1000)
        a = gpuvec.to_device(np.ones(100))
        stream = gpuvec.Stream()
        out = gpuvec.add(a, a, stream=stream)
        stream.synchronize()
        """,
        GPUVEC_PLACEMENT="gpu",
        **environment(),
    )
    staged, *_, queued = found
    assert staged["where"] == "gpu (device 0, staged+mapped, 1 thread)"
    assert staged["reason"] == "asked for"
    assert queued["queued"] == "queued on gpu (device 0, resident)"


@needs_fake_driver
def test_cores_that_do_a_gpus_work():
    """The line and the last run say that a GPU failed."""
    found = logged(
        """
        from fake_driver import FakeDriver
        a = gpuvec.pinned_empty(1 << 22, "f4")
        a[:] = 1
        gpuvec.exp = lambda: gpuvec.add(a, a)
        with gpuvec.placement("gpu"):
            gpuvec.exp()
        add(10)
        FakeDriver().plan_random(1, 10_000, [2])
        gpuvec.exp()
        assert last_run().backend == 1 and gpuvec.last_run().reason == "fallback"
        """,
        GPUVEC_PLACEMENT="auto",
        GPUVEC_NUM_THREADS="1",
        **environment(),
    )
    assert [line["reason"] for line in found] == ["asked for", "fastest", "fallback"]


def test_lines_of_many_threads_are_whole():
    """Each call has its own line, and no two are mixed."""
    found = logged(
        """
        def calls(number):
            for _ in range(500):
                add(number)
        threads = [threading.Thread(target=calls, args=(n,)) for n in range(1, 9)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        """
    )
    counts = [sum(line["n"] == str(n) for line in found) for n in range(1, 9)]
    assert counts == [500] * 8 and len(found) == 4000


def test_a_forked_child_writes_its_lines():
    """Also while other threads of the parent write theirs."""
    found = logged(
        """
        over = threading.Event()
        def calls():
            while not over.is_set():
                add(10)
        thread = threading.Thread(target=calls)
        thread.start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                add(11)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        over.set()
        thread.join()
        """
    )
    assert sum(line["n"] == "11" for line in found) == 20


@pytest.mark.parametrize("end", ["closed", "without a reader", "full"])
def test_a_stderr_that_takes_no_lines(end):
    """The line is lost: calls succeed, no signal ends the process, and errno stays."""
    run_silently(
        PRELUDE
        + f"""
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
if {end == "closed"}:
    os.close(2)
elif {end == "full"}:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 2)
else:
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 2)
a = np.ones(100, "f4")
add_of_library = ctypes.CDLL(gpuvec.library_path(), use_errno=True).vector_add
add_of_library.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_size_t]
for _ in range(2):
    # The first call may leave another errno: it reads the environment.
    ctypes.set_errno(77)
    assert add_of_library(a.ctypes.data, a.ctypes.data, a.ctypes.data, a.size) == 0
assert ctypes.get_errno() == 77, ctypes.get_errno()
assert (a == 4).all()
assert not signal.sigpending() and signal.SIGPIPE not in signal.pthread_sigmask(0, [])
""",
        GPUVEC_LOG="run",
    )


@pytest.mark.parametrize("variables", [{}, {"GPUVEC_LOG": ""}], ids=["unset", "empty"])
def test_nothing_is_written_without_it(variables):
    """Neither by calls that succeed nor by calls that fail."""
    script = """
    add(10), add(3_000_000), gpuvec.evaluate("a + a", a=np.ones(5))
    assert lib.vector_add(None, None, None, 5) == Status.ERROR_NULL
    """
    assert stderr_of(script, **variables) == ""
