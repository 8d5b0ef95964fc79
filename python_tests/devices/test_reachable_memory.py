"""Pageable arrays that GPUs reach are used in place or staged, whichever took less time."""

import pytest
from on_fake_driver import needs_fake_driver, run

pytestmark = needs_fake_driver

# Calls of an operation for GPUs on pageable arrays: whether the last one staged them.
CALLS = """
from operations import named
lib.gpuvec_set_placement(Place.GPU)
ok(lib.gpuvec_init())  # opens the devices, which a first call does not know
operation, n = named({name!r}), {n}
a, b = operation.data(np.random.default_rng(1), n)
out = np.zeros(operation.outputs(n), operation.out_dtype)
for _ in range({calls}):
    ok(call(operation, a, b, out))
    assert_same_bits(out, operation.oracle(a, b))
assert last_run().backend == Backend.GPU
assert (last_run().bytes_staged > 0) == {is_staged}
"""

each_operation = pytest.mark.parametrize("name", ["add_f32", "dot_f64", "max_i32"])


def calls(name: str, n: int, calls: int, is_staged: bool) -> str:
    """Returns the script of some calls."""
    return CALLS.format(name=f"gpuvec_{name}", n=n, calls=calls, is_staged=is_staged)


@each_operation
@pytest.mark.parametrize("n", [1, 1000, 1_000_003])
def test_arrays_are_used_in_place_if_gpus_reach_them(name, n):
    run(calls(name, n, 1, False), PAGEABLE=1)


@each_operation
def test_arrays_are_staged_if_gpus_take_long_in_place(name):
    run(calls(name, 1_000_003, 8, True), PAGEABLE=1, PAGE_FAULTS=100_000)


@each_operation
def test_arrays_are_staged_if_gpus_do_not_reach_them(name):
    run(calls(name, 1000, 1, True))


def test_several_gpus_use_arrays_in_place():
    run(calls("add_f32", 10_000_019, 1, False), PAGEABLE=1, DEVICES=3)


def test_arrays_of_any_strides_are_used_in_place():
    run(
        """
        import gpuvec
        gpuvec.set_placement("gpu")
        ok(lib.gpuvec_init())
        x = np.arange(3_000_000, dtype=np.float32).reshape(1000, 3000)[::2, ::-3]
        result = gpuvec.evaluate("x * 2 + 1", x=x)
        assert (result == x * 2 + 1).all() and gpuvec.last_run().bytes_staged == 0
        sums = gpuvec.evaluate("sum(x)", x=x, axis=0)
        assert (sums == x.astype(np.float64).sum(axis=0).astype(np.float32)).all()
        """,
        PAGEABLE=1,
    )


def test_nothing_is_copied_to_an_integrated_gpu():
    run(
        """
        lib.gpuvec_set_placement(Place.GPU)
        n = 5_000_000
        a, b, out = (pinned_empty(n, np.float32) for _ in range(3))
        a[:], b[:] = 1.5, np.arange(n)
        calls = len(fake_driver.calls())
        ok(lib.gpuvec_add_f32(a.ctypes.data, b.ctypes.data, out.ctypes.data, n, None))
        assert (out == a + b).all()
        assert not any("Memcpy" in name for name in fake_driver.calls()[calls:])
        """,
        INTEGRATED=1,
    )
