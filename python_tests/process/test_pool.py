"""The library's threads: their number, and their properties, which the first caller does not set.

Each case runs in a process of its own.
"""

import os
import threading
from textwrap import dedent

import pytest
from programs import run_silently

MOST_THREADS = 256

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
several_cores = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="the process may run on one core only"
)


@pytest.mark.parametrize("attempt", range(3))
@pytest.mark.parametrize("threads", [2, 16, MOST_THREADS])
def test_first_calls_at_once_start_each_thread_once(program, threads, attempt):
    """Many first calls at the same time start no more helpers than were asked for."""
    environment = {"GPUVEC_PLACEMENT": "cpu", "GPUVEC_NUM_THREADS": str(threads)}
    program("first_calls", threads - 1, **environment)


# `call` checks a long addition; `helpers` are the library's threads, as Linux describes them. No
# call waits for them to begin: until then they have the name of the thread that started them.
CALLS = """
import os, resource, threading
import numpy as np
from bindings import last_run, lib

ONES = np.ones(2_000_003, np.float32)
SUMS, IS_RIGHT = np.zeros_like(ONES), np.zeros(ONES.size, bool)

def call():
    SUMS[:] = 0
    assert lib.vector_add(*[ONES.ctypes.data] * 2, SUMS.ctypes.data, ONES.size) == 0
    assert np.equal(SUMS, 2, out=IS_RIGHT).all()
    return last_run().threads

def most_threads(limit):
    # Until one has as many threads as it may: each has as many as it takes the least time with.
    for _ in range(5_000):
        found = call()
        assert found <= limit, found
        if found == limit:
            break
    return found

def status(task):
    with open(f"/proc/self/task/{task}/status") as file:
        return {key: text.strip() for key, text in (line.split(":", 1) for line in file)}

def name(task):
    try:
        return status(task)["Name"]
    except OSError:
        return "a thread that has ended meanwhile"

def tasks():
    return {int(task) for task in os.listdir("/proc/self/task")}

BEFORE = tasks()

def helpers():
    while True:
        found = sorted(tasks() - BEFORE)
        if all(name(task).startswith("gpuvec-") for task in found):
            return found
"""


def run_on_cpu(*scripts: str, **environment: str) -> None:
    """Runs a script of several parts with placement cpu."""
    whole = CALLS + "".join(map(dedent, scripts))
    # NumPy's own threads would count for a limit.
    environment |= {"GPUVEC_PLACEMENT": "cpu", "OPENBLAS_NUM_THREADS": "1"}
    run_silently(whole, **environment)


# Linux counts a user's threads: those of a user without other processes are this process's. Its
# capabilities go with root's rights, so that the limit binds.
AS_ANOTHER_USER = """
def owner(process):
    try:
        return os.stat(f"/proc/{process}").st_uid
    except OSError:
        return None  # The process has ended meanwhile.

def become_another_user():
    used = {owner(name) for name in os.listdir("/proc") if name.isdigit()}
    user = next(number for number in range(40_000, 50_000) if number not in used)
    os.setresuid(user, user, user)

def limit_threads(count):
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    resource.setrlimit(resource.RLIMIT_NPROC, (count, hard))

become_another_user()
alone = len(os.listdir("/proc/self/task"))
"""


@needs_root
@pytest.mark.parametrize("allowed", [0, 1, 3, 14])
def test_a_shortage_of_threads(allowed):
    """Results are right, and the last run counts only the threads that could be started."""
    script = f"""
    limit_threads(alone + {allowed})
    for _ in range(5):
        assert most_threads(1 + {allowed}) == 1 + {allowed}
        assert len(helpers()) == {allowed}
    """
    run_on_cpu(AS_ANOTHER_USER, script, GPUVEC_NUM_THREADS="16")


@needs_root
@pytest.mark.parametrize("allowed", [0, 1, 3, 14])
def test_threads_are_started_once_they_are_available_again(allowed):
    """After a shortage of threads later calls use as many threads as they were told to."""
    script = f"""
    limit_threads(alone + {allowed})
    call()
    limit_threads(alone + 100)
    while call() < 16:
        pass
    assert last_run().threads == 16 and len(helpers()) == 15
    """
    run_on_cpu(AS_ANOTHER_USER, script, GPUVEC_NUM_THREADS="16")


@pytest.mark.parametrize("threads", [4, 16])
def test_address_space_for_a_few_threads_only(threads):
    """The last run counts the threads that were started before memory for stacks ran out."""
    script = """
    pages = int(open("/proc/self/statm").read().split()[0])
    room = pages * os.sysconf("SC_PAGE_SIZE") + (5 << 19)
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    assert call() == 1 + len(helpers()), (last_run().threads, len(helpers()))
    """
    run_on_cpu(script, GPUVEC_NUM_THREADS=str(threads))


# The first call comes from a thread that changed its own properties.
FIRST_CALL = """
def call_first(change):
    found = []
    def work():
        change()
        found.append(call())
    caller = threading.Thread(target=work)
    caller.start()
    caller.join()
    return found[0]

def properties(task):
    return {
        "cores": os.sched_getaffinity(task),
        "nice": os.getpriority(os.PRIO_PROCESS, task),
        "policy": os.sched_getscheduler(task),
    }
"""


def test_helpers_run_on_the_processs_cores():
    """A first call from a thread that is bound to one core binds no helper to it."""
    script = """
    core = min(os.sched_getaffinity(0))
    call_first(lambda: os.sched_setaffinity(0, {core}))
    expected = status(os.getpid())["Cpus_allowed"]
    assert [status(task)["Cpus_allowed"] for task in helpers()] == 3 * [expected]
    """
    run_on_cpu(FIRST_CALL, script, GPUVEC_NUM_THREADS="4")


@several_cores
def test_the_number_of_threads_is_that_of_the_processs_cores():
    """Without GPUVEC_NUM_THREADS there is a thread for each core of the process."""
    script = """
    cores = os.sched_getaffinity(0)
    assert call_first(lambda: os.sched_setaffinity(0, {min(cores)})) == len(cores)
    assert len(helpers()) == len(cores) - 1
    """
    run_on_cpu(FIRST_CALL, script)


def test_helpers_have_the_processs_nice_value():
    """A first call from a thread with a lower priority lowers no helper's, if that is permitted."""
    script = """
    before = properties(os.getpid())
    call_first(lambda: os.setpriority(os.PRIO_PROCESS, 0, before["nice"] + 5))
    limit = resource.getrlimit(resource.RLIMIT_NICE)[0]
    may_raise = os.geteuid() == 0 or limit == -1 or 20 - limit <= before["nice"]
    nice = before["nice"] + (0 if may_raise else 5)
    assert [properties(task)["nice"] for task in helpers()] == 3 * [nice]
    assert properties(os.getpid()) == before
    """
    run_on_cpu(FIRST_CALL, script, GPUVEC_NUM_THREADS="4")


def test_the_number_of_threads_follows_the_setter():
    """Up and down in one process; threads are started when the number first requires them."""
    script = """
    most = 1
    for threads in (1, 2, 4, 3, 1, 16, 5, 0, 20):
        assert lib.gpuvec_set_num_threads(threads) == 0
        threads = threads or 6
        most = max(most, threads)
        for _ in range(3):
            assert most_threads(threads) == threads == lib.gpuvec_get_num_threads()
        assert len(helpers()) == most - 1
    """
    run_on_cpu(script, GPUVEC_NUM_THREADS="6")


# `switches` counts how often each helper slept or was interrupted. One that sleeps on adds none.
SWITCHES = """
def is_asleep(task):
    return status(task)["State"].startswith("S")

def switches():
    while not all(is_asleep(task) for task in helpers()):
        pass
    return {
        name(task): sum(int(text) for key, text in status(task).items() if "ctxt_switches" in key)
        for task in helpers()
    }
"""


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_helpers_past_the_number_of_threads_sleep_on(threads):
    """After a lower number all callers together have the helpers of a process with that number."""
    script = f"""
    from threads import in_threads
    lib.gpuvec_set_num_threads(8)
    call()
    before = switches()
    assert len(before) == 7
    lib.gpuvec_set_num_threads({threads})
    def work(_):
        sums = np.zeros_like(ONES)
        for _ in range(10):
            assert lib.vector_add(*[ONES.ctypes.data] * 2, sums.ctypes.data, ONES.size) == 0
            assert last_run().threads <= {threads} and (sums == 2).all()
    in_threads(work, 4)
    after = switches()
    woken = {{name for name in after if after[name] != before[name]}}
    assert woken <= {{f"gpuvec-{{number}}" for number in range({threads} - 1)}}, woken
    """
    run_on_cpu(SWITCHES, script)


def test_the_number_of_threads_is_every_threads():
    """A number that one thread sets is in force at once in all others."""
    script = """
    from threads import in_threads

    def set_and_call(_):
        assert lib.gpuvec_set_num_threads(3) == 0
        assert most_threads(3) == 3

    def ask_and_call(_):
        assert lib.gpuvec_get_num_threads() == most_threads(5) == 5

    in_threads(set_and_call, 1)
    assert lib.gpuvec_get_num_threads() == most_threads(3) == 3
    lib.gpuvec_set_num_threads(5)
    in_threads(ask_and_call, 1)
    """
    run_on_cpu(script)


def test_a_forked_child_has_the_number_of_threads():
    """It has its parent's number with a pool of its own, and each changes the number for itself."""
    script = """
    from fork import in_child, in_process

    def child():
        assert lib.gpuvec_get_num_threads() == most_threads(4) == 4
        for threads in (1, 7, 2):
            lib.gpuvec_set_num_threads(threads)
            assert most_threads(threads) == threads
        in_child(grandchild)

    def grandchild():
        assert lib.gpuvec_get_num_threads() == most_threads(2) == 2

    lib.gpuvec_set_num_threads(4)
    in_child(child)
    for _ in range(2):
        assert lib.gpuvec_get_num_threads() == most_threads(4) == 4
        in_child(child)
        in_process(child)
    assert most_threads(4) == 4
    """
    run_on_cpu(script)


def test_the_number_of_threads_changes_under_calls():
    """Results are right, no call has more threads than was ever set, and the last number holds."""
    script = """
    over = threading.Event()
    found = [[] for _ in range(4)]

    def work(mine):
        sums = np.zeros_like(ONES)
        while not over.is_set():
            assert lib.vector_add(*[ONES.ctypes.data] * 2, sums.ctypes.data, ONES.size) == 0
            assert (sums == 2).all()
            mine.append(last_run().threads)

    # A machine's own number may be larger than those below.
    number = 12
    lib.gpuvec_set_num_threads(number)
    callers = [threading.Thread(target=work, args=[mine]) for mine in found]
    for caller in callers:
        caller.start()
    while min(map(len, found)) < 20:
        number = number % 12 + 1
        lib.gpuvec_set_num_threads(number)
    over.set()
    for caller in callers:
        caller.join()
    assert set().union(*found) <= set(range(1, 13)), found
    lib.gpuvec_set_num_threads(9)
    assert most_threads(9) == 9
    """
    run_on_cpu(script)


def is_permitted(policy: int, priority: int) -> bool:
    """Returns whether a thread of this process may be scheduled in this way."""
    found = []

    def attempt():
        try:
            os.sched_setscheduler(0, policy, os.sched_param(priority))
            found.append(True)
        except PermissionError:
            found.append(False)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return found == [True]


@pytest.mark.parametrize("policy, priority", [("SCHED_BATCH", 0), ("SCHED_FIFO", 1)])
def test_helpers_have_the_processs_scheduling_policy(policy, priority):
    """A first call from a thread that is scheduled otherwise changes no helper's policy."""
    if not is_permitted(getattr(os, policy), priority):
        pytest.skip(f"{policy} is not permitted")
    script = f"""
    call_first(lambda: os.sched_setscheduler(0, os.{policy}, os.sched_param({priority})))
    expected = properties(os.getpid())
    assert [properties(task) for task in helpers()] == 3 * [expected]
    """
    run_on_cpu(FIRST_CALL, script, GPUVEC_NUM_THREADS="4")


def test_helpers_are_started_with_the_properties_of_the_main_thread():
    """The first caller has changed all of them, like a real-time worker that is bound to a core."""
    script = """
    def change():
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    call_first(change)
    expected = properties(os.getpid())
    assert [properties(task) for task in helpers()] == 3 * [expected]
    """
    run_on_cpu(FIRST_CALL, script, GPUVEC_NUM_THREADS="4")


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
