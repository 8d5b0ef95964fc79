"""Error codes of the driver: which lose a device, and which are an error of one call.

Each driver call of a sequence of library calls fails, once with each code; in short tests with some
of the codes, in turn. A code that the library does not know does not lose the device: the error
quotes the driver, and later calls work.
"""

from typing import Optional

import on_fake_driver
import pytest

pytestmark = on_fake_driver.needs_fake_driver

# Codes after which the driver still works, according to CUDA's reference. 35 and 12345 are not
# codes now, but a driver that is newer than this library may define them.
TRANSIENT = {
    1: "CUDA_ERROR_INVALID_VALUE",
    35: None,
    36: "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER",
    46: "CUDA_ERROR_DEVICE_UNAVAILABLE",
    400: "CUDA_ERROR_INVALID_HANDLE",
    401: "CUDA_ERROR_ILLEGAL_STATE",
    805: "CUDA_ERROR_MPS_CONNECTION_FAILED",
    900: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
    906: "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
    12345: None,
}

# Codes after which, according to the reference, only a new process can use CUDA again, and codes of
# a defect in the hardware or in the driver itself.
LOSING = (214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999)
# The same, of drivers that are newer than CUDA 11.
LOSING_NEWER = (226, 721, 810, 911)

# The beginning of all scripts. `work` is a list of functions that call the library and stop at the
# first failure; each fault is tried in a child of its own, which opens the driver itself.
PRELUDE = """
import itertools
import json
from fault_injection import BROKEN, in_child

fake_driver = FakeDriver()

class Failed(Exception):
    pass

def good(status):
    if status != Status.OK:
        raise Failed(Status(status).name, last_error())

def got(handle):
    if not handle:
        raise Failed("NULL", last_error())
    return handle

def add():
    "A call on pageable memory, which is staged."
    n = 300_001
    a = np.arange(n, dtype=np.int32)
    good(lib.gpuvec_add_i32(a.ctypes.data, a.ctypes.data, a.ctypes.data, n, None))
    assert (a == 2 * np.arange(n)).all() and last_run().backend == Backend.GPU

def reduction():
    n = 300_001
    a, total = np.arange(n, dtype=np.int64), np.full(1, 7)
    good(lib.gpuvec_dot_i64(a.ctypes.data, a.ctypes.data, total.ctypes.data, n, None))
    assert total == np.dot(a, a)

def streams():
    "Queued work, and events, on pinned and device memory."
    n, to_destroy, to_free = 1000, [], []
    try:
        stream, other = (got(lib.gpuvec_stream_create(0)) for _ in range(2))
        to_destroy += [(lib.gpuvec_stream_destroy, handle) for handle in (stream, other)]
        first, last = (got(lib.gpuvec_event_create()) for _ in range(2))
        to_destroy += [(lib.gpuvec_event_destroy, handle) for handle in (first, last)]
        pinned = got(lib.pinned_alloc(8 * n + 8))
        to_free.append((lib.pinned_free, pinned))
        device = got(lib.gpuvec_device_alloc(8 * n, 0))
        to_free.append((lib.gpuvec_device_free, device))
        array = np.ctypeslib.as_array((ctypes.c_int64 * (n + 1)).from_address(pinned))
        array[:] = np.arange(n + 1)
        good(lib.gpuvec_copy(device, pinned, 8 * n, stream))
        good(lib.gpuvec_event_record(first, stream))
        good(lib.gpuvec_add_i64(device, pinned, device, n, stream))
        good(lib.gpuvec_event_record(last, stream))
        good(lib.gpuvec_stream_wait(other, last))
        good(lib.gpuvec_sum_i64(device, pinned + 8 * n, n, other))
        for query, handle in ((lib.gpuvec_stream_query, stream), (lib.gpuvec_event_query, last)):
            if (status := query(handle)) != Status.NOT_READY:
                good(status)
        good(lib.gpuvec_event_synchronize(last))
        ms = ctypes.c_float(-1)
        good(lib.gpuvec_event_elapsed(first, last, byref(ms)))
        good(lib.gpuvec_stream_synchronize(other))
        assert array[n] == n * (n - 1) and ms.value >= 0
    finally:
        fake_driver.drain()
        for release, handle in to_destroy + to_free:
            release(handle)

def registration():
    array = np.zeros(100_000, np.int32)
    at = array.ctypes.data
    good(lib.gpuvec_host_register(at, array.nbytes))
    try:
        good(lib.gpuvec_add_i32(at, at, at, array.size, None))
    finally:
        good(lib.gpuvec_host_unregister(at))

def outcome_of(work):
    try:
        work()
    except Failed as failed:
        return failed.args
    return "OK", ""

def begun(is_open):
    lib.gpuvec_set_placement(Place.GPU)
    if is_open:
        globals()[WORK]()
    fake_driver.plan("")

def clean(is_open):
    begun(is_open)
    globals()[WORK]()
    return json.dumps(fake_driver.calls())

def each(codes, check):
    "Makes each call fail: the first of its name, with the device closed and open."
    wrong, tried, used = [], set(), set()
    turns = itertools.cycle(codes)
    for is_open in (False, True):
        outcome, text = in_child(lambda: clean(is_open))
        assert outcome != BROKEN, text
        calls = json.loads(text)
        for name in sorted(set(calls) - {"cuDriverGetVersion"}):
            number = calls.index(name) + 1
            for code in itertools.islice(turns, CODES_PER_CALL or len(codes)):
                def faulty():
                    begun(is_open)
                    fake_driver.plan(f"{number}={code}")
                    said, text = outcome_of(globals()[WORK])
                    assert fake_driver.count("faults") == 1
                    fake_driver.plan("")
                    check(name, code, is_open, said, text)
                    return "right"

                outcome, text = in_child(faulty)
                tried.add((name, is_open))
                used.add(code)
                if outcome == BROKEN:
                    wrong.append(f"{name} with {code}, open {is_open}: {text}")
    print(len(wrong), "wrong")
    print(*wrong, sep="\\n")
    assert used == set(codes)
    return wrong, tried
"""

WORKS = ("add", "reduction", "streams", "registration")

# Calls that the work depends on: their failure always reaches the caller. Other calls are retried,
# optional, or release something once the result is there.
MUST_FAIL = {
    "cuStreamSynchronize",
    "cuLaunchKernel",
    "cuMemcpyAsync",
    "cuModuleLoadData",
    "cuModuleLoadDataEx",
    "cuModuleGetFunction",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuStreamWaitEvent",
    "cuStreamCreateWithPriority",
    "cuMemAlloc_v2",
    "cuDevicePrimaryCtxRetain",
}


# The number of codes with which each call fails; None: all of them.
some_or_all_codes = pytest.mark.parametrize(
    "codes_per_call",
    [pytest.param(3, marks=pytest.mark.long), pytest.param(None, marks=pytest.mark.exhaustive)],
    ids=["some", "all"],
)


def run(script: str, work: str, codes_per_call: Optional[int]) -> None:
    """Runs a script for one kind of work on the fake driver."""
    tables = f"NAMES, MUST_FAIL, WORK = {TRANSIENT!r}, {MUST_FAIL!r}, {work!r}\n"
    tables += f"CODES_PER_CALL = {codes_per_call}\n"
    settings = {"GPUVEC_NUM_THREADS": "1"}
    on_fake_driver.run(PRELUDE + tables + script, variables=settings, FLAGS=0)


@some_or_all_codes
@pytest.mark.parametrize("work", WORKS)
def test_a_transient_code_is_an_error_of_one_call(work, codes_per_call):
    """The error has the code's name and number, and the next call works."""
    run(
        """
def check(name, code, is_open, said, text):
    allowed = ["ERROR_DRIVER", "NULL"] + ["ERROR_NO_GPU"] * (not is_open)
    allowed += ["OK"] * (name not in MUST_FAIL)
    # An address that the driver does not know may be one that was freed.
    allowed += ["ERROR_POINTER"] * name.startswith("cuPointer")
    assert said in allowed, f"{said}: {text}"
    if said not in ("OK", "ERROR_POINTER"):
        assert f"({code})" in text, text
        assert NAMES[code] is None or NAMES[code] in text, text
        assert "CUDA_ERROR_UNKNOWN" not in text, text
    assert lib.gpuvec_init() == Status.OK, f"after {said}, gpuvec_init: {last_error()}"
    said, text = outcome_of(globals()[WORK])
    assert said == "OK", f"the next call: {said}: {text}"

wrong, tried = each(NAMES, check)
assert ("cuCtxPushCurrent_v2", True) in tried
assert not wrong
""",
        work,
        codes_per_call,
    )


@some_or_all_codes
@pytest.mark.parametrize("codes", [LOSING, LOSING_NEWER], ids=["CUDA 11", "newer"])
@pytest.mark.parametrize("work", ["add", "streams"])
def test_a_code_that_loses_the_device(work, codes, codes_per_call):
    """The call that needs the failed function reports the loss, and so does each later call."""
    run(
        f"""
def check(name, code, is_open, said, text):
    if name not in MUST_FAIL:
        return
    allowed = ["ERROR_DEVICE_LOST", "NULL"] + ["ERROR_NO_GPU"] * (not is_open)
    assert said in allowed, f"{{said}}: {{text}}"
    assert f"({{code}})" in text or "lost" in text, text
    if said == "ERROR_DEVICE_LOST":
        for _ in range(2):
            fake_driver.plan("")
            said, text = outcome_of(globals()[WORK])
            assert said in ("ERROR_DEVICE_LOST", "NULL"), f"the next call: {{said}}: {{text}}"
            assert "lost" in text, text
            assert "cuLaunchKernel" not in fake_driver.calls()
    lib.gpuvec_set_placement(Place.AUTO)
    a = np.arange(300_001, dtype=np.int32)
    ok(lib.gpuvec_add_i32(a.ctypes.data, a.ctypes.data, a.ctypes.data, a.size, None))
    assert (a == 2 * np.arange(a.size)).all()

wrong, tried = each({codes!r}, check)
assert not wrong
""",
        work,
        codes_per_call,
    )
