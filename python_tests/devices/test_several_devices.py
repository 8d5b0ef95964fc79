"""Several GPUs share the work of a call, and the others go on when one fails.

The fake driver simulates them.
"""

from itertools import product

import pytest
from on_fake_driver import needs_fake_driver, run

pytestmark = needs_fake_driver


def test_several_devices():
    """All devices are counted and named, and the first one is used."""
    run(
        """
        assert lib.gpuvec_device_count() == 3
        names = [lib.gpuvec_device_name(device) for device in range(3)]
        assert all(names) and len(set(names)) == 3
        assert lib.gpuvec_device_name(3) is None and "device is 3" in last_error()
        lib.gpuvec_set_placement(Place.GPU)
        assert set(backends(1000, 300_001)) == {Backend.GPU} and last_run().devices == 1
        """,
        DEVICES=3,
    )


def test_a_device_that_does_not_open_is_passed_over():
    """The next device computes, and gpuvec_init tries the first one again."""
    opening = run(
        'assert why_cpu() == ""\nprint(fake_driver.calls().index("cuDevicePrimaryCtxRetain"))',
        DEVICES=3,
    )
    run(
        """
        lib.gpuvec_set_placement(Place.GPU)
        assert set(backends(1000, 300_001)) == {Backend.GPU} and last_run().devices == 2
        assert lib.gpuvec_init() == 0
        assert set(backends(1000, 300_001)) == {Backend.GPU} and last_run().devices == 1
        """,
        DEVICES=3,
        FAULTS=f"{int(opening) + 1}=2",
    )


def test_a_lost_device_is_passed_over():
    """The call that loses the device fails with placement gpu; later calls use the next device."""
    run(
        """
        lib.gpuvec_set_placement(Place.GPU)
        assert set(backends(300_001, kind="pageable")) == {Backend.GPU}
        assert last_run().devices == 1
        fake_driver.plan("")
        attempt(OPERATIONS[0], 300_001, "pageable")
        launch = fake_driver.calls().index("cuLaunchKernel") + 1
        fake_driver.plan(f"{launch}=700~")
        status, text = attempt(OPERATIONS[0], 300_001, "pageable")
        assert status == Status.ERROR_DEVICE_LOST and "device 0" in text, text
        fake_driver.plan("")
        assert set(backends(1000, 300_001, kind="pageable")) == {Backend.GPU}
        assert last_run().devices == 2
        """,
        threads=1,
        DEVICES=3,
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", ["pinned", "pinned+3", "pageable+7"])
def test_all_devices_take_part_in_long_calls(kind):
    """The bits are the same, in place too, and each unpinned element is staged once."""
    run(
        f"""
lib.gpuvec_set_placement(Place.GPU)
found = [bits for _ in range(5) for bits in devices("{kind}")]
assert 7 in found and set(found) <= set(range(1, 8)), found
check_staging("{kind}")
check_in_place("{kind}")
assert devices("{kind}", 300_001) == [1, 1]
""",
        DEVICES=3,
        DELAY=300,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "kind, threads",
    [
        ("pinned", 4),
        ("pageable", 1),
        pytest.param("pinned", 1, marks=pytest.mark.exhaustive),
        pytest.param("pageable", 4, marks=pytest.mark.exhaustive),
    ],
)
def test_all_devices_take_part_in_long_calls_on_arrays_of_any_strides(kind, threads):
    """Elementwise ones, reductions of columns, of rows, and of all, and both together."""
    run(
        f"""
from formulas import Compiled
def empty(shape, dtype):
    elements = int(np.prod(shape))
    array = pinned_empty(elements, dtype) if "{kind}" == "pinned" else np.empty(elements, dtype)
    return array.reshape(shape)

whole = empty((2100, 4200), np.float32)
whole[...] = np.random.default_rng(1).normal(0, 1, whole.shape)
for text, view, axes in [
    ("x * x + 1", whole[:, :-1], 0),
    ("x * x + 1", whole.T, 0),
    ("sum(x)", whole, 0b01),
    ("argmax(x)", whole[:, ::-1], 0b10),
    ("max(x)", whole[:, :-1], 0b11),
    ("sum(x); x * 2", whole[:, ::-1], 0b01),
    ("x * 2; sum(x)", whole[:, :-1], 0b11),
]:
    reduced = [1 if axes >> axis & 1 else n for axis, n in enumerate(view.shape)]
    shapes = [reduced if "(" in formula else view.shape for formula in text.split(";")]
    with Compiled(text, {{"x": "f4"}}) as compiled:
        outs, wanted = (list(map(empty, shapes, compiled.dtypes())) for _ in range(2))
        lib.gpuvec_set_placement(Place.CPU)
        ok(compiled.run_nd(view.shape, [view], wanted, axes))
        lib.gpuvec_set_placement(Place.GPU)
        for _ in range(20):
            for out in outs:
                out.view("u1")[...] = 255
            ok(compiled.run_nd(view.shape, [view], outs, axes))
            assert all(map(np.array_equal, outs, wanted)), text
            if last_run().devices == 7:
                break
        assert last_run().devices == 7, text
""",
        variables={"GPUVEC_NUM_THREADS": str(threads)},
        DEVICES=3,
    )


# Among these, any two values of different parameters meet.
IN_PAIRS = [
    (1, "GPU", "pinned", "by variable"),
    (1, "ALL", "pageable", "by call"),
    (3, "GPU", "pageable", "by call"),
    (3, "ALL", "pinned", "by variable"),
    (6, "GPU", "pageable", "by variable"),
    (6, "ALL", "pinned", "by call"),
]


@pytest.mark.parametrize(
    "threads, place, kind, how",
    [
        pytest.param(*values, marks=() if values in IN_PAIRS else pytest.mark.exhaustive)
        for values in product(
            [1, 3, 6], ["GPU", "ALL"], ["pinned", "pageable"], ["by variable", "by call"]
        )
    ],
)
def test_threads_are_limited_on_several_devices(threads, place, kind, how):
    """One thread drives several devices: all take part, and no other threads are at work."""
    run(
        f"""
def of_the_library():
    "The names of the library's threads in this process."
    names = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{{task}}/comm") as comm:
            names.append(comm.read())
    return [name for name in names if name.startswith("gpuvec-")]

def call_all():
    return devices("{kind}"), last_run().threads

lib.gpuvec_set_placement(Place.{place})
if "{how}" == "by call":
    ok(lib.gpuvec_set_num_threads({threads}))
ok(lib.gpuvec_init())
# With placement all, cores may take the chunks before any device does.
uses_gpus = "{place}" == "GPU"
with fake_driver.call_held("cuLaunchKernel" if uses_gpus else ""):
    calling = Started(call_all)
    if uses_gpus:
        fake_driver.wait_for_held_calls(min({threads}, 4))
        # Threads of the driver have the name of the one that starts them, for a moment.
        while sum("gpu-" in name for name in of_the_library()) >= {threads}:
            pass
    assert {threads} > 1 or of_the_library() == []
found, at_work = calling.get()
assert at_work <= {threads}, at_work
assert not uses_gpus or {threads} > 1 or found == [15, 15], found
check_in_place("{kind}")
assert last_run().threads <= {threads}
""",
        variables={"GPUVEC_NUM_THREADS": str(threads if how == "by variable" else 5)},
        DEVICES=4,
    )


@pytest.mark.long
def test_one_thread_drives_several_devices_of_which_one_fails():
    """The others take the chunks of a device without memory; one that is lost fails the call."""
    run(
        """
from fake_driver import Fault
lib.gpuvec_set_placement(Place.GPU)
ok(lib.gpuvec_init())
fake_driver.plan("")
assert devices("pageable", 1000)
fake_driver.plan("")
assert devices() == [7, 7]
calls = fake_driver.calls()
for number in [n for n, name in enumerate(calls, 1) if name == "cuLaunchKernel"][:12]:
    fake_driver.plan(f"{number}=2")
    status, text = attempt(PAIR[0], LONG)
    assert status in (Status.OK, Status.ERROR_OUT_OF_MEMORY), text
    fake_driver.plan("")
    assert devices() == [7, 7]
fake_driver.plan(f"{calls.index('cuLaunchKernel') + 2}=719")
lost = [attempt(PAIR[0], LONG)[0] for _ in range(3)]
assert Status.ERROR_DEVICE_LOST in lost and lost[-1] == Status.OK, lost
""",
        threads=1,
        DEVICES=3,
    )


@pytest.mark.parametrize("place", ["GPU", "AUTO", "CPU"])
@pytest.mark.parametrize("n", [1000, 5_000_003])
def test_queued_writes_of_another_device_are_waited_for(place, n):
    """Calls wait for the caller's work on its device's default stream, on any device."""
    run(
        f"""
from cuda_driver import Driver

lib.gpuvec_set_placement(Place.GPU)
assert devices()[0]
ones, array, out = (filled("pinned", np.ones({n}, np.int32)) for _ in range(3))
lib.gpuvec_set_placement(Place.{place})
for number in (2, 0, 1):
    caller = Driver(number)
    with caller.entered():
        caller.fill_later(array.address, 7 + number, {n})
        assert lib.add_arrays(array.address, ones.address, out.address, {n}) == 0, last_error()
    assert (out.array == 8 + number).all(), number
""",
        DEVICES=3,
        DELAY=20_000,
    )


@pytest.mark.parametrize("place", ["GPU", "ALL"])
def test_a_device_is_lost_in_a_call_of_all(place):
    """The call fails or cores do the work; later ones use other devices. No sum is incomplete."""
    run(
        f"""
AMID = {{"cuLaunchKernel", "cuMemcpyAsync", "cuStreamSynchronize"}}
lib.gpuvec_set_placement(Place.{place})
assert why_cpu() == ""

def arrays_of(operation):
    inputs = [filled("pinned", values).array for values in repeated(operation, LONG)]
    return *inputs, output(operation, "pinned", LONG).array

arrays = [arrays_of(operation) for operation in PAIR]
expected = [operation.oracle(*repeated(operation, LONG)) for operation in PAIR]

def status_of(operation, plan=""):
    number = PAIR.index(operation)
    fake_driver.plan(plan)
    status = call(operation, *arrays[number])
    if status == Status.OK:
        assert_same_bits(arrays[number][2], expected[number])
    return status

for operation in PAIR:
    is_met = False
    for attempt in range(50):
        while status_of(operation) != Status.OK:
            assert Place.{place} == Place.GPU
        if "cuLaunchKernel" not in fake_driver.calls():
            continue  # Cores did it all.
        amid = fake_driver.calls().index("cuLaunchKernel") + 15
        status = status_of(operation, f"{{amid}}=700")
        # A call may make too few calls of the driver to meet the fault.
        is_met = fake_driver.count("faults") > 0
        assert status == Status.OK or (is_met and Place.{place} == Place.GPU)
        if is_met:
            break
    assert is_met or Place.{place} == Place.ALL
    # Another thread may be anywhere: a device that fails before it takes a part is not missed.
    if AMID & set(fake_driver.calls()[amid - 1 : amid]) and Place.{place} == Place.GPU:
        assert status == Status.ERROR_DEVICE_LOST
while status_of(PAIR[0]) != Status.OK:
    assert Place.{place} == Place.GPU
for operation in 5 * PAIR:
    assert status_of(operation) == Status.OK
    # Cores that take part may have left a device nothing.
    assert last_run().devices < 7 and (last_run().devices or Place.{place} == Place.ALL)
""",
        DEVICES=3,
    )


@pytest.mark.long
def test_other_devices_take_the_chunks_of_one_without_memory():
    """A device without room takes no chunk, and the call succeeds."""
    run(
        """
from ctypes import byref, c_size_t, c_uint64
from cuda_driver import Driver

lib.gpuvec_set_placement(Place.GPU)
other = Driver(1)
with other.entered():
    other.call("cuMemAlloc_v2", byref(c_uint64()), c_size_t(other.free_bytes()))
for _ in range(5):
    bits = devices()[1]
    assert bits & 1 and not bits & 2, bits
""",
        DEVICES=3,
    )


def test_work_runs_where_the_arrays_are():
    """The output's device computes; inputs on other devices are copied to it."""
    run(
        """
        import itertools
        from ctypes import byref, c_void_p
        from bindings import PathBit
        from cuda_driver import DeviceArray, Driver
        driver = Driver()

        def on_device(number, values):
            context = c_void_p()
            driver.call("cuDevicePrimaryCtxRetain", byref(context), number)
            driver.set_current(context)
            return DeviceArray(driver, values)

        for operation in OPERATIONS:
            n = 300_001 if operation in SAMPLE else 1000
            values = repeated(operation, n)
            result = operation.oracle(*values)
            inputs = [[on_device(number, array) for number in range(3)] for array in values]
            outputs = [on_device(number, np.zeros_like(result)) for number in range(3)]
            for places in itertools.product(range(3), repeat=3):
                a, b, out = (of[place] for of, place in zip([*inputs, outputs], places))
                assert call_at(operation, a.address, b.address, out.address, n) == 0, last_error()
                assert_same_bits(out.values(), result)
                run, far = last_run(), set(places[: operation.shape.arity]) - {places[2]}
                assert (run.devices, run.bytes_staged) == (1 << places[2], 0)
                assert run.path & ~PathBit.RESIDENT == (PathBit.DMA if far else 0)
                out.fill(np.zeros_like(result))
            for array in [*inputs[0], *inputs[1], *outputs]:
                array.free()
        """,
        DEVICES=3,
    )
