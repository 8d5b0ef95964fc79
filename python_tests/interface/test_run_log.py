"""GPUVEC_LOG: a line for each call on arrays, and for events inside them; without it, none."""

import os
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

EVENT = re.compile(
    rf'gpuvec: (?:(?P<compiled>compiled "[ -~]*") in {TIME}|(?P<reused>reused "[ -~]*")'
    rf"|(?P<loaded>loaded \w+ on device \d+) in {TIME}"
    r"|(?P<fallback>fell back to cores: .+)|(?P<failed>failed to open a GPU: .+)"
    r"|(?P<trimmed>trimmed \d+ bytes))"
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


def test_a_view_is_updated_in_place_by_one_call():
    """Python assigns the result of ``x[1:] += 3`` to ``x[1:]``, which is there already."""
    found = logged(
        """
        x = gpuvec.DeviceArray((4, 6))
        x[:] = 0
        x[1:, ::2] += 3
        x[0] = x[3]
        assert x.to_host().tolist() == [[3, 0, 3, 0, 3, 0]] * 4
        """
    )
    calls = ["f32(value)", "f32(x + y)", "f32(value)", "copy"]
    assert [line["what"].strip('"') for line in found] == calls


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


def events(script: str, **variables: str) -> list[str]:
    """Runs a script with a log of everything; returns each event, and "call" for each call."""
    found = []
    for line in stderr_of(script, GPUVEC_LOG="all", **variables).splitlines():
        event = EVENT.fullmatch(line)
        assert event or LINE.fullmatch(line), line
        found.append(event[event.lastgroup] if event else "call")
    return found


def test_compilations_and_what_saves_them():
    """A text is compiled once, as long as it is among the newest; each handle is a line."""
    expression = "gpuvec.Expression('a + 1', a='f4')"
    found = events(f"{expression}(a=np.ones(5, 'f4')); {expression}", GPUVEC_PLACEMENT="cpu")
    assert found == ['compiled "a + 1"', "call", 'reused "a + 1"']


@needs_fake_driver
def test_kernels_that_devices_load():
    """Each kernel has a line when a device first needs it; and the release of memory has one."""
    found = events("add(10), add(10), gpuvec.trim()", GPUVEC_PLACEMENT="gpu", **environment())
    loaded, call = [f"loaded {name} on device 0" for name in ("probe", "add_f32")], "call"
    assert found[:-1] == [*loaded, call, call] and found[-1].startswith("trimmed ")


@needs_fake_driver
def test_the_reason_of_a_fallback():
    """The line before the call's says what failed."""
    fallback, call = events(
        """
        from fake_driver import FakeDriver
        a = gpuvec.pinned_empty(1 << 22, "f4")
        a[:] = 1
        with gpuvec.placement("gpu"):
            gpuvec.add(a, a)
        FakeDriver().plan_random(1, 10_000, [2])
        gpuvec.add(a, a)
        """,
        GPUVEC_PLACEMENT="auto",
        GPUVEC_NUM_THREADS="1",
        **environment(),
    )[-2:]
    assert fallback.startswith("fell back to cores: ") and "CUDA_ERROR_OUT_OF_MEMORY" in fallback
    assert call == "call"


@needs_fake_driver
def test_the_reason_why_no_gpu_is_used():
    """A driver that shows no device is a line, once."""
    script = "gpuvec.init(), gpuvec.why_cpu(), add(10)"
    [failed, call] = events(script, **environment(DEVICES=0))
    assert failed.startswith("failed to open a GPU: ") and call == "call"


@pytest.mark.parametrize("lines", ["run", "all"])
def test_a_file_has_the_lines_of_threads_and_children(lines, tmp_path):
    """Each is whole; stderr has none. A relative path stays in the first folder."""
    script = """
    def calls():
        for _ in range(200):
            add(10)
    threads = [threading.Thread(target=calls) for _ in range(4)]
    add(10)
    os.chdir("/")
    [thread.start() for thread in threads]
    child = os.fork()
    if child == 0:
        add(11)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    [thread.join() for thread in threads]
    """
    path = tmp_path / "a:log"
    path.write_text("before\n")
    script = f"import os\nos.chdir({str(tmp_path)!r})\n" + textwrap.dedent(script)
    assert stderr_of(script, GPUVEC_LOG=f"{lines}:a:log") == ""
    first, *others = path.read_text().splitlines()
    found = [LINE.fullmatch(line) for line in others]
    assert first == "before" and all(found)
    assert sorted(line["n"] for line in found) == ["10"] * 801 + ["11"]


def test_a_program_may_close_descriptors_and_remove_the_file(tmp_path):
    """Lines never go to a file of the program's, and a file that was moved away is made again."""
    path = tmp_path / "log"
    script = f"""
    add(1)
    os.closerange(3, 256)
    own = os.open({str(tmp_path / "own")!r}, os.O_CREAT | os.O_RDWR)
    os.rename({str(path)!r}, {str(path)!r} + ".1")
    add(2)
    assert os.fstat(own).st_size == 0
    """
    assert stderr_of(script, GPUVEC_LOG=f"run:{path}") == ""
    assert " n=1 " in path.with_name("log.1").read_text()
    assert " n=2 " in path.read_text()


def test_a_file_that_is_full_takes_no_lines(tmp_path):
    """No signal ends the process at the limit of a file's size."""
    script = """
    import resource
    add(1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    add(2)
    assert not signal.sigpending()
    """
    path = tmp_path / "log"
    assert stderr_of(script, GPUVEC_LOG=f"run:{path}") == ""
    assert len(path.read_text().splitlines()) == 1


@pytest.mark.parametrize("file", ["", "/", "/dev/null/log", "pipe"])
def test_a_file_that_cannot_be_written_is_an_error(file, tmp_path):
    """The error names the setting's value. A pipe without a reader would delay calls."""
    if file == "pipe":
        file = str(tmp_path / file)
        os.mkfifo(file)
    script = f"""
    assert lib.vector_add(None, None, None, 0) == Status.ERROR_ENVIRONMENT
    assert "GPUVEC_LOG is 'run:{file}'" in last_error(), last_error()
    """
    assert stderr_of(script, GPUVEC_LOG=f"run:{file}") == ""
