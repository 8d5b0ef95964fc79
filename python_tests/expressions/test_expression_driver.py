"""The driver's work for expressions, its time, and the effects of its failures; on fake GPUs."""

import pytest
from on_fake_driver import needs_fake_driver, run

pytestmark = needs_fake_driver

PRELUDE = """
from formulas import Compiled

N = 3_000_001
TEXT, INPUTS = "a*b + 1", {"a": "f4", "b": "f4"}
a = (np.arange(N) % 1000).astype(np.float32)
b = a[::-1].copy()
out = np.empty_like(a)

def check(compiled, n=N):
    out[:] = 0
    inputs = [a.ctypes.data, b.ctypes.data]
    ok(compiled.run(inputs, out.ctypes.data, n))
    assert_same_bits(out[:n], a[:n] * b[:n] + np.float32(1))
    return Backend(last_run().backend)

def modules():
    return fake_driver.calls().count("cuModuleLoadData")

"""


def test_a_call_on_host_arrays_does_not_wait_for_the_compiler():
    """Cores do its work until the expression was prepared, or used by a call that needs the GPU."""
    run(
        PRELUDE
        + """
with Compiled(TEXT, INPUTS) as compiled:
    lib.gpuvec_init()
    fake_driver.plan("")
    assert check(compiled) == Backend.CPU
    assert modules() == 0
    ok(lib.gpuvec_expr_prepare(compiled.handle, 0))
    ok(lib.gpuvec_expr_prepare(compiled.handle, 0))
    assert modules() == 1
    for _ in range(5):
        check(compiled)
    assert check(compiled, 1000) == Backend.CPU
    lib.gpuvec_set_placement(Place.GPU)
    assert check(compiled) == Backend.GPU
    assert modules() == 1
""",
        DEVICES=1,
    )


def test_a_kernel_is_loaded_once_on_each_device():
    """Independently of the handles, and of the threads that need the kernel at once."""
    run(
        PRELUDE
        + """
from threads import in_threads
lib.gpuvec_set_placement(Place.GPU)
# Opens both devices.
for device in range(2):
    ok(lib.gpuvec_device_free(lib.gpuvec_device_alloc(1, device)))
fake_driver.plan("")
with Compiled(TEXT, INPUTS) as first, Compiled(TEXT, INPUTS) as second:
    in_threads(lambda number: ok(lib.gpuvec_expr_prepare((first, second)[number % 2].handle, 0)))
    assert modules() == 1
    ok(lib.gpuvec_expr_prepare(first.handle, 1))
    assert modules() == 2
""",
        DEVICES=2,
    )


def test_a_kernel_that_nothing_can_use_is_unloaded():
    """It stays for texts that are compiled again soon, and goes with the last use of the others."""
    run(
        PRELUDE
        + """
lib.gpuvec_set_placement(Place.GPU)
with Compiled(TEXT, INPUTS) as compiled:
    check(compiled)
before = fake_driver.count("modules") - 1
fake_driver.plan("")
with Compiled(TEXT, INPUTS) as compiled:
    check(compiled)
assert modules() == 0
for number in range(1000):
    with Compiled(f"a*b + {number}", INPUTS) as compiled:
        ok(lib.gpuvec_expr_prepare(compiled.handle, 0))
assert modules() >= 999
assert fake_driver.count("modules") - before <= 64
""",
        DEVICES=1,
    )


def test_queued_expressions_run_in_order_and_outlive_their_handles():
    """Elementwise ones and reductions, of arrays on the device."""
    run(
        PRELUDE
        + """
from streams import Resources
with Resources() as resources:
    x, y = (resources.memory("device", a.nbytes) for _ in range(2))
    count = resources.memory("pinned", 8)
    x.put(a), y.put(b)
    stream = lib.gpuvec_stream_create(0)
    with fake_driver.held():
        with Compiled("x + y", {"x": "f4", "y": "f4"}) as add:
            ok(add.run([x.address, y.address], x.address, N, stream))
            ok(add.run([x.address, y.address], x.address, N, stream))
        with Compiled("count(x > 1500)", {"x": "f4"}) as more:
            ok(more.run([x.address], count.address, N, stream))
    ok(lib.gpuvec_stream_synchronize(stream))
    right = a + b + b
    assert_same_bits(x.get(np.float32), right)
    assert count.get(np.int64)[0] == np.count_nonzero(right > 1500)
    ok(lib.gpuvec_stream_destroy(stream))
""",
        DEVICES=1,
    )


def test_large_expressions_are_computed_in_parts():
    """The bits are NumPy's, and so is the result of a reduction."""
    run(
        PRELUDE
        + """
lib.gpuvec_set_placement(Place.GPU)
n = 10_007
pointers = [a.ctypes.data, b.ctypes.data]
text = " + ".join(f"a / (b + {k})" for k in range(1, 700))
right = a[:n] / (b[:n] + np.float32(1))
for k in range(2, 700):
    right += a[:n] / (b[:n] + np.float32(k))
with Compiled(text, INPUTS) as compiled:
    ok(compiled.run(pointers, out.ctypes.data, n))
    assert_same_bits(out[:n], right)
    assert Backend(last_run().backend) == Backend.GPU
first = np.empty(1, np.int64)
with Compiled(f"argmax({text})", INPUTS) as compiled:
    ok(compiled.run(pointers, first.ctypes.data, n))
    assert first[0] == np.argmax(right)
""",
        DEVICES=1,
    )


@pytest.mark.long
def test_several_gpus_share_a_long_call():
    """Each takes chunks, of arrays of different widths."""
    run(
        PRELUDE
        + """
from bindings import pinned_empty
lib.gpuvec_set_placement(Place.GPU)
n = 9_000_001
x, y = pinned_empty(n, np.float32), pinned_empty(n, np.int16)
x[:], y[:] = np.arange(n) % 777, np.arange(n) % 55
result, total = pinned_empty(n, np.float64), pinned_empty(1, np.int64)
pointers = [x.ctypes.data, y.ctypes.data]
with Compiled("f64(x) - y", {"x": "f4", "y": "i2"}) as difference:
    ok(difference.run(pointers, result.ctypes.data, n))
assert_same_bits(result, x.astype(np.float64) - y)
assert bin(last_run().devices).count("1") == 2
with Compiled("argmax(x - y)", {"x": "f4", "y": "i2"}) as first:
    ok(first.run(pointers, total.ctypes.data, n))
assert total[0] == np.argmax(x - y)
""",
        DEVICES=2,
    )


def test_a_forked_child_leaves_the_driver_alone():
    """It evaluates on its cores what its parent has compiled for the GPU."""
    run(
        PRELUDE
        + """
with Compiled(TEXT, INPUTS) as compiled:
    lib.gpuvec_set_placement(Place.GPU)
    assert check(compiled) == Backend.GPU
    fake_driver.plan("")

    def child():
        lib.gpuvec_set_placement(Place.AUTO)
        assert check(compiled) == Backend.CPU
        assert fake_driver.calls() == []

    in_child(child)
    assert check(compiled) == Backend.GPU
""",
        DEVICES=1,
    )


def test_a_compiler_that_fails():
    """With placement auto the cores do the work; with gpu the error names the driver's function."""
    run(
        PRELUDE
        + """
lib.gpuvec_init()
with Compiled(TEXT, INPUTS) as compiled:
    fake_driver.plan("1=218+")
    status = lib.gpuvec_expr_prepare(compiled.handle, 0)
    assert status == Status.ERROR_DRIVER, last_error()
    fake_driver.plan("")
    ok(lib.gpuvec_expr_prepare(compiled.handle, 0))
    lib.gpuvec_set_placement(Place.GPU)
    assert check(compiled) == Backend.GPU
""",
        DEVICES=1,
    )


# Makes the library forget the earlier expressions: their places among the newest have others.
FORGET = """
def forget():
    for number in range(1000):
        with Compiled(f"a*b - {number}", INPUTS):
            pass

"""


def test_kernels_of_others_are_unloaded_by_calls_that_load():
    """The driver is slow to unload one: no call waits but the one that loads another kernel."""
    run(
        PRELUDE
        + FORGET
        + """
lib.gpuvec_set_placement(Place.GPU)
stream = lib.gpuvec_stream_create(0)
idle = lib.gpuvec_stream_create(0)
kept, third = Compiled("a - b", INPUTS), Compiled("a / b", INPUTS)
ok(lib.gpuvec_expr_prepare(kept.handle, 0))
with Compiled(TEXT, INPUTS) as compiled:
    check(compiled)

def others():
    "Calls that have nothing to do with the expression."
    forget()
    ok(lib.gpuvec_expr_prepare(kept.handle, 0))
    ok(kept.run([a.ctypes.data, b.ctypes.data], out.ctypes.data, N))
    assert_same_bits(out, a - b)
    ok(lib.gpuvec_stream_destroy(lib.gpuvec_stream_create(0)))
    ok(lib.gpuvec_stream_synchronize(stream))

loaded = fake_driver.count("modules")
with fake_driver.call_held("cuModuleUnload"):
    others()
    ok(lib.gpuvec_stream_destroy(idle))
    assert fake_driver.count("held_calls") == 0
    loading = Started(lib.gpuvec_expr_prepare, third.handle, 0)
    fake_driver.wait_for_held_calls()
    others()
    # Another thread that needs the new kernel has it.
    ok(lib.gpuvec_expr_prepare(third.handle, 0))
    assert fake_driver.count("held_calls") == 1
ok(loading.get())
assert fake_driver.count("modules") == loaded
ok(lib.gpuvec_stream_destroy(stream))
""",
        DEVICES=1,
    )


def test_modules_that_the_driver_refuses_to_unload_are_unloaded_later():
    """Nothing accumulates."""
    run(
        PRELUDE
        + FORGET
        + """
texts = [f"a + b * {number}" for number in range(20)]
loaded = fake_driver.count("modules")
for text in texts:
    with Compiled(text, INPUTS) as compiled:
        ok(lib.gpuvec_expr_prepare(compiled.handle, 0))
forget()
fake_driver.plan("cuModuleUnload=2")
for number in range(10):
    with Compiled(f"a - {number}.5", INPUTS) as compiled:
        ok(lib.gpuvec_expr_prepare(compiled.handle, 0))
fake_driver.plan("")
forget()
needed = []
for number in range(30):
    needed.append(Compiled(f"b - {number}.5", INPUTS))
    ok(lib.gpuvec_expr_prepare(needed[-1].handle, 0))
assert fake_driver.count("modules") - loaded - 1 == len(needed), fake_driver.count("modules")
""",
        DEVICES=1,
    )


def test_kernels_are_loaded_and_unloaded_while_another_thread_captures():
    """In the relaxed mode of the thread, which afterwards is what it was."""
    run(
        PRELUDE
        + FORGET
        + """
from cuda_driver import Driver
with Compiled(TEXT, INPUTS) as compiled:
    ok(lib.gpuvec_expr_prepare(compiled.handle, 0))
forget()
loaded = fake_driver.count("modules")
driver = Driver()
with driver.entered():
    stream = driver.new_stream()
with fake_driver.captured(stream.value):
    with Compiled("a - b", INPUTS) as compiled:
        ok(lib.gpuvec_expr_prepare(compiled.handle, 0))
assert fake_driver.count("modules") == loaded
mode = c_int(1)
assert fake_driver.driver.cuThreadExchangeStreamCaptureMode(byref(mode)) == 0
assert mode.value == 0
""",
        DEVICES=1,
    )


def test_a_module_without_its_kernel_is_unloaded():
    """An expression's, an operation's, and the one by which a device is tried when it opens."""
    run(
        PRELUDE
        + """
lib.gpuvec_set_placement(Place.GPU)
NOT_FOUND = 500
fake_driver.plan(f"cuModuleGetFunction={NOT_FOUND}")
assert lib.gpuvec_init() == Status.ERROR_NO_GPU, last_error()
assert fake_driver.count("modules") == 0
fake_driver.plan("")
ok(lib.gpuvec_init())
loaded = fake_driver.count("modules")
fake_driver.plan(f"cuModuleGetFunction={NOT_FOUND}")
with Compiled(TEXT, INPUTS) as compiled:
    status = lib.gpuvec_expr_prepare(compiled.handle, 0)
    assert status == Status.ERROR_DRIVER, last_error()
for name in ("gpuvec_add_f32", "gpuvec_sum_f32"):
    arrays = [a, b, out] if "add" in name else [a, out]
    status = getattr(lib, name)(*[array.ctypes.data for array in arrays], N, None)
    assert status == Status.ERROR_DRIVER, (name, last_error())
assert fake_driver.count("modules") == loaded
assert fake_driver.calls().count("cuModuleLoadData") >= 3
""",
        DEVICES=1,
    )


SEVERAL = (
    PRELUDE
    + """
SEVERAL = "count(a < b); a*b + 1; max(a); b"

def launches():
    "Returns the numbers of the launches among the driver's calls."
    calls = enumerate(fake_driver.calls(), 1)
    return [number for number, name in calls if name == "cuLaunchKernel"]

def check_several(compiled, n=N, stream=None):
    "Evaluates four formulas, the last one into a itself, and returns the status."
    x, y = (array[:n].copy() for array in (a, b))
    product, count, largest = np.zeros(n, np.float32), np.int64([0]), np.float32([0])
    outs = [array.ctypes.data for array in (count, product, largest, x)]
    status = compiled.run_outputs([x.ctypes.data, y.ctypes.data], outs, n, stream)
    if status == Status.OK:
        assert_same_bits(product, a[:n] * b[:n] + np.float32(1))
        assert_same_bits(x, b[:n])
        assert (count[0], largest[0]) == ((a[:n] < b[:n]).sum(), a[:n].max())
    return status
"""
)


def test_each_kernel_of_several_outputs_is_loaded_and_unloaded_once():
    """One for each reduction, and one for the other outputs."""
    run(
        SEVERAL
        + FORGET
        + """
lib.gpuvec_init()
lib.gpuvec_set_placement(Place.GPU)
with Compiled("a + b", INPUTS) as compiled:
    ok(lib.gpuvec_expr_prepare(compiled.handle, 0))
loaded = fake_driver.count("modules")
fake_driver.plan("")
with Compiled(SEVERAL, INPUTS) as compiled:
    ok(lib.gpuvec_expr_prepare(compiled.handle, 0))
    assert modules() == 3
    ok(check_several(compiled))
    assert last_run().backend == Backend.GPU
    assert modules() == 3
forget()
# A call that loads a kernel unloads up to two.
others = [Compiled(text, INPUTS) for text in ("a - b", "b - a")]
for other in others:
    ok(lib.gpuvec_expr_prepare(other.handle, 0))
assert fake_driver.count("modules") == loaded + 1, (fake_driver.count("modules"), loaded)
""",
        DEVICES=1,
    )


def test_several_outputs_on_several_devices():
    """The states of the chunks of all devices, and of cores, are merged."""
    run(
        SEVERAL
        + """
N = 5_000_001
a = (np.arange(N) % 1000).astype(np.float32)
b = a[::-1].copy()
for place in (Place.GPU, Place.ALL):
    lib.gpuvec_set_placement(place)
    with Compiled(SEVERAL, INPUTS) as compiled:
        ok(check_several(compiled, N))
        assert last_run().backend == Backend.GPU or place == Place.ALL
        assert last_run().devices in (3, 0), last_run().devices
""",
        DEVICES=2,
    )


def test_cores_do_the_work_of_all_kernels_if_one_fails():
    """They begin anew: the chunks that a device finished before do not count twice."""
    run(
        SEVERAL
        + """
NOT_SUPPORTED, n = 801, 5_000_001
x, y = (pinned_empty(n, np.float32) for _ in range(2))
count, product = np.int64([0]), pinned_empty(n, np.float32)
x[:], y[:] = np.arange(n) % 1000, np.arange(n) % 999
outs = [count.ctypes.data, product.ctypes.data]
less, right = (x < y).sum(), x * y
with Compiled("count(a < b); a*b", INPUTS) as compiled:
    ok(lib.gpuvec_expr_prepare(compiled.handle, 0))
    lib.gpuvec_set_placement(Place.ALL)
    # The only thread drives the device, which so has all chunks.
    lib.gpuvec_set_num_threads(1)
    for number in (0, 1, 4, 5):
        fake_driver.plan("")
        product[:], count[:] = 0, 0
        ok(compiled.run_outputs([x.ctypes.data, y.ctypes.data], outs, n))
        assert last_run().devices == 1 and len(launches()) > 2
        assert count[0] == less and (product == right).all()
        product[:], count[:] = 0, 0
        fake_driver.plan(f"{launches()[number]}={NOT_SUPPORTED}+")
        ok(compiled.run_outputs([x.ctypes.data, y.ctypes.data], outs, n))
        assert count[0] == less and (product == right).all()
        assert last_run().backend == Backend.CPU, number
""",
        DEVICES=1,
    )


def test_a_kernel_that_a_stream_refuses_leaves_none_before_it_in_flight():
    """The call waits for the kernels before it: its arrays may be freed then."""
    run(
        SEVERAL
        + """
NOT_SUPPORTED, n = 801, 100_000
lib.gpuvec_set_placement(Place.GPU)
x, product = (pinned_empty(n, np.float32) for _ in range(2))
x[:] = a[:n]
count = pinned_empty(1, np.int64)
stream = lib.gpuvec_stream_create(0)
with Compiled("count(a < b); a*b", INPUTS) as compiled:
    inputs, outs = [x.ctypes.data] * 2, [count.ctypes.data, product.ctypes.data]
    ok(compiled.run_outputs(inputs, outs, n, stream))
    ok(lib.gpuvec_stream_synchronize(stream))
    fake_driver.plan("")
    ok(compiled.run_outputs(inputs, outs, n, stream))
    ok(lib.gpuvec_stream_synchronize(stream))
    assert count[0] == 0 and (product == x * x).all()
    at = launches()
    fake_driver.plan(f"{at[1]}={NOT_SUPPORTED}")
    assert compiled.run_outputs(inputs, outs, n, stream) == Status.ERROR_DRIVER
    assert fake_driver.count("pending") == 0
    assert "cuStreamSynchronize" in fake_driver.calls()[at[1]:]
ok(lib.gpuvec_stream_destroy(stream))
""",
        DEVICES=1,
    )


def test_several_outputs_are_not_recorded_into_a_graph():
    """Their reductions use memory of the handle: the call fails before anything is queued."""
    run(
        SEVERAL
        + """
from cuda_driver import Driver
lib.gpuvec_set_placement(Place.GPU)
x, product = (pinned_empty(9, np.float32) for _ in range(2))
count = pinned_empty(1, np.int64)
x[:], product[:] = 1, 0
driver = Driver()
with driver.entered():
    raw = driver.new_stream()
stream = lib.gpuvec_stream_from_native(raw.value)
with Compiled("count(a < b); a*b", INPUTS) as compiled:
    ok(lib.gpuvec_expr_prepare(compiled.handle, 0))
    with fake_driver.captured(raw.value):
        inputs, outs = [x.ctypes.data] * 2, [count.ctypes.data, product.ctypes.data]
        fake_driver.plan("")
        status = compiled.run_outputs(inputs, outs, 9, stream)
        assert status == Status.ERROR_VALUE, status
        assert "cuLaunchKernel" not in fake_driver.calls()
assert (product == 0).all()
ok(lib.gpuvec_stream_destroy(stream))
""",
        DEVICES=1,
    )
