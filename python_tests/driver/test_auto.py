"""Placement auto on the fake driver: when it opens the driver, and how it moves work."""

from typing import Any

import pytest
from on_fake_driver import needs_fake_driver
from on_fake_driver import run as run_on_fake_driver

pytestmark = needs_fake_driver

# A formula on which a core works for some 5 ns an element, on arrays in memory of a kind.
HEAVY = """
from formulas import Compiled

heavy = Compiled("exp(sin(a)) + log(cos(b) + 2)", {"a": "f4", "b": "f4"})
n = 300_001
values = [np.linspace(0, 1, n, dtype=np.float32), np.linspace(1, 2, n, dtype=np.float32)]

def arrays(kind):
    return [filled(kind, array) for array in (*values, np.zeros(n, np.float32))]

def evaluate(a, b, out):
    ok(heavy.run([a.array.ctypes.data, b.array.ctypes.data], out.array.ctypes.data, n))
    return Backend(last_run().backend)

def is_open():
    return "cuInit" in fake_driver.calls()
"""


def run(script: str, **settings: Any) -> None:
    """Runs a script with placement auto."""
    run_on_fake_driver(HEAVY + script, **settings)


def test_twenty_additions_never_open_the_driver():
    """A short script pays nothing for a GPU that it does not need."""
    run(
        """
a, b, out = (np.ones(1_000_000, np.float32) for _ in range(3))
for _ in range(20):
    ok(lib.vector_add(a.ctypes.data, b.ctypes.data, out.ctypes.data, a.size))
    assert last_run().backend == Backend.CPU
assert not is_open()
"""
    )


@pytest.mark.parametrize("first", ["gpuvec_init()", "gpuvec_device_count()", "pinned_alloc(64)"])
def test_the_driver_is_opened_at_once_where_it_is_asked_for(first):
    """Later calls find it open."""
    run(
        f"""
assert not is_open()
lib.{first}
assert is_open()
"""
    )


@pytest.mark.parametrize("kind", ["pinned", "pageable"])
def test_work_leaves_a_device_that_is_slow(kind):
    """Calls go to the device as the prior predicts, and to cores once the device was slow."""
    run(
        f"""
ok(lib.gpuvec_expr_prepare(heavy.handle, 0))
there = arrays("{kind}")
found = [evaluate(*there) for _ in range(100)]
assert Backend.GPU in found and found[-50:].count(Backend.CPU) >= 45, found
_, core, *_, gpu, _, _ = last_run().predicted_ns
assert gpu > 2 * core > 0, list(last_run().predicted_ns)
""",
        LATENCY=50_000,
        variables={"GPUVEC_NUM_THREADS": "1"},
    )


@pytest.mark.long
def test_every_result_is_right_while_work_moves():
    """Calls return the same bits wherever they run, to learn or because that is faster."""
    run(
        """
ok(lib.gpuvec_expr_prepare(heavy.handle, 0))
bits, choices = set(), set()
for kind in ("pinned", "pageable"):
    there = arrays(kind)
    for _ in range(100):
        evaluate(*there)
        bits.add(there[2].array.tobytes())
        choices.add(last_run().choice)
        there[2].array[:] = 0
assert len(bits) == 1 and len(choices) > 1, choices
""",
        LATENCY=1000,
    )


def test_an_expression_is_compiled_where_that_pays():
    """The reason tells that a device has not compiled it; calls do not wait for a slow compiler."""
    run(
        """
from bindings import Reason
ok(lib.gpuvec_init())
there = arrays("pinned")
assert evaluate(*there) == Backend.CPU
assert last_run().reason == Reason.COMPILING, (last_run().reason, list(last_run().predicted_ns))
calls = 1
while evaluate(*there) == Backend.CPU and calls < 2000:
    assert last_run().reason == Reason.COMPILING
    calls += 1
assert 1 < calls < 2000, calls
"""
    )


@pytest.mark.parametrize("kind", ["pinned", "pageable", "pageable+7"])
@pytest.mark.parametrize("which", [0, 2], ids=["elementwise", "reduction"])
def test_cores_and_a_device_share_a_call(kind, which):
    """Of pageable arrays too: each element is computed once, and the bits are the same."""
    run(
        f"""
from bindings import Choice
lib.gpuvec_set_placement(Place.AUTO)
operation = OPERATIONS[{which}]
n = 5_000_003
a, b = repeated(operation, n)
expected = operation.oracle(a, b)
there = [filled("{kind}", array) for array in (a, b)]
out = output(operation, "{kind}", n)
lib.gpuvec_set_placement(Place.GPU)
ok(call(operation, there[0].array, there[1].array, out.array))
lib.gpuvec_set_placement(Place.AUTO)
shared = 0
for number in range(200):
    ok(call(operation, there[0].array, there[1].array, out.array))
    assert_same_bits(out.array, expected)
    out.array[:] = 0
    shared += last_run().choice == Choice.CORES_AND_GPUS
    if shared:
        break
assert shared
assert all(array.guards_are_intact() for array in (*there, out))
if {which} == 0:
    ok(call(operation, there[0].array, there[1].array, there[0].array))
    assert_same_bits(there[0].array, expected)
""",
        variables={"GPUVEC_NUM_THREADS": "4"},
    )
