"""What the driver does for expressions, when, and what a failure of it does; on fake GPUs."""

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
    assert check(compiled) == Backend.GPU
    assert check(compiled, 1000) == Backend.CPU
    assert modules() == 1
""",
        DEVICES=1,
    )


def test_a_kernel_is_loaded_once_on_each_device():
    """Whatever the handles, and the threads that need it at once."""
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
fake_driver.plan("")
with Compiled(TEXT, INPUTS) as compiled:
    check(compiled)
assert modules() == 0
for number in range(1000):
    with Compiled(f"a*b + {number}", INPUTS) as compiled:
        ok(lib.gpuvec_expr_prepare(compiled.handle, 0))
assert modules() >= 999
assert modules() - fake_driver.calls().count("cuModuleUnload") <= 64
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
    ok(lib.gpuvec_expr_prepare(compiled.handle, 0))
    assert check(compiled) == Backend.GPU
    fake_driver.plan("")

    def child():
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
    assert check(compiled) == Backend.GPU
""",
        DEVICES=1,
    )
