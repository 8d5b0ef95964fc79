"""Devices with little memory, few streams or slow queues: results are right, and nothing leaks.

The fake driver simulates these devices.
"""

import textwrap

import pytest
from on_fake_driver import needs_fake_driver, run

pytestmark = needs_fake_driver


@pytest.mark.parametrize("host_pointers", [1, 0])
def test_device_addresses_of_page_locked_memory(host_pointers):
    """The driver is asked for each array's address, unless the device uses host addresses."""
    run(
        f"""
        lib.gpuvec_set_placement(Place.GPU)
        for operation in SAMPLE:
            assert attempt(operation, 1000) == (Status.OK, "")
            fake_driver.plan("")
            assert attempt(operation, 1000) == (Status.OK, "")
            asked = fake_driver.calls().count("cuPointerGetAttribute")
            arrays = operation.shape.arity + (operation.kind == "elementwise")
            assert asked == (0 if {host_pointers} else arrays), asked
        """,
        HOST_POINTERS=host_pointers,
    )


def test_page_locked_memory_is_page_aligned():
    """The driver alone would put it on a page with other small allocations."""
    run(
        """
        for operation in SAMPLE:
            assert attempt(operation, 1000) == (Status.OK, "")
        held = fake_driver.ledger()
        for size in (0, 1, 4096, 70_001):
            address = lib.pinned_alloc(size)
            assert address % 4096 == 0, last_error()
            assert fake_driver.count("host_allocations") == held["host_allocations"] + 1
            ctypes.memset(address, 7, max(4096, -(-size // 4096) * 4096))
            assert lib.pinned_free(address) == 0, last_error()
            assert fake_driver.ledger() == held
        """,
        HOST_OFFSET=512,
    )


@pytest.mark.long
def test_little_device_memory():
    """The cores do the work if a device has no room for the buffers, which few calls need."""
    run(
        """
        assert why_cpu() == ""
        for place in (Place.AUTO, Place.ALL):
            lib.gpuvec_set_placement(place)
            assert set(backends(FOR_A_GPU)) == {Backend.CPU}
            list(backends(FOR_A_GPU, kind="pageable"))
        lib.gpuvec_set_placement(Place.GPU)
        for operation in SAMPLE:
            status, text = attempt(operation, FOR_A_GPU)
            assert status == Status.ERROR_OUT_OF_MEMORY
            assert "cuMemAlloc failed with CUDA_ERROR_OUT_OF_MEMORY" in text
        assert set(backends(1, 50_001, 500_003)) == {Backend.GPU}
        """,
        MEMORY=1 << 20,
    )


@pytest.mark.parametrize("call", ["cuStreamCreateWithPriority", "cuMemHostAlloc"])
def test_a_call_continues_with_fewer_slots(call):
    """A call continues with fewer slots if no more can be made, even in the middle of its work."""
    script = """
    import os
    os.environ["GPUVEC_NUM_THREADS"] = "1"
    lib.gpuvec_set_placement(Place.GPU)
    a, b = (filled("pageable", values) for values in repeated(OPERATIONS[0], FOR_A_GPU))
    assert call(OPERATIONS[0], a.array, b.array, a.array) == Status.OK, last_error()
    assert last_run().backend == Backend.GPU
    assert_same_bits(a.array, OPERATIONS[0].oracle(*repeated(OPERATIONS[0], FOR_A_GPU)))
    """
    show = f"\nprint(*[i for i, name in enumerate(fake_driver.calls(), 1) if name == '{call}'])"
    made = run(textwrap.dedent(script) + show).split()
    assert len(made) > 2
    for number in made[1:3]:
        run(script, FAULTS=f"{number}=2")


def test_slow_queues_and_many_threads():
    """Every thread's results are right, however late queued work is done."""
    run(
        """
        import random
        from concurrent.futures import ThreadPoolExecutor
        from arrays import KINDS
        lib.gpuvec_set_placement(Place.GPU)

        def work(number):
            chance = random.Random(number)
            for _ in range(6):
                n = chance.choice([1, 1000, 100_001, 300_001])
                operation, kind = chance.choice(OPERATIONS), chance.choice(sorted(KINDS))
                assert attempt(operation, n, kind) == (Status.OK, "")

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(work, range(16)))
        assert 1 <= fake_driver.count("streams") <= 18
        """,
        DELAY=300,
    )


@pytest.mark.long
def test_a_thousand_calls_hold_no_more_than_a_few():
    """Slots are made once, and everything else is released."""
    run(
        """
        lib.gpuvec_set_placement(Place.GPU)
        sizes = [1, 5000, 300_001, 530_003]
        arrays = {
            (operation, n): [filled(kind, values) for kind in ("pageable", "pinned")
                             for values in repeated(operation, n)]
            for operation in SAMPLE for n in sizes
        }

        def calls(count):
            for number in range(count):
                operation, n = list(arrays)[number % len(arrays)]
                a, _, _, b = arrays[operation, n]
                out = np.zeros(operation.outputs(n), operation.out_dtype)
                assert call(operation, a.array, b.array, out) == 0, last_error()
                memory = lib.pinned_alloc(5000)
                assert memory and lib.pinned_free(memory) == 0

        calls(100)
        held = fake_driver.ledger()
        calls(1000)
        assert fake_driver.ledger() == held and held["contexts"] == 1
        """,
        threads=1,
    )


@pytest.mark.parametrize("ratio, sums", [(2, 0), (8, 0), (9, 2), (64, 2)])
def test_sums_of_f32_where_f64_is_slow(ratio, sums):
    """Kernels add f32 by integers alone if f32 is more than 8 times faster than f64."""
    run(
        f"""
        lib.gpuvec_set_placement(Place.GPU)
        for operation in OPERATIONS[3:]:
            assert attempt(operation, 1000) == (Status.OK, "")
        assert fake_driver.count("integer_sums") == {sums}
        """,
        F64_RATIO=ratio,
    )


def test_scratch_memory_is_made_zero_once_and_after_a_failure():
    """The fake driver checks that a kernel finds zeros there."""
    run(
        """
        lib.gpuvec_set_placement(Place.GPU)
        dot = next(operation for operation in SAMPLE if operation.name == "dot_product")

        def fills(plan):
            fake_driver.plan(plan)
            status, _ = attempt(dot, 1000)
            return status, fake_driver.calls().count("cuMemsetD8Async")

        assert fills("") == (Status.OK, 1)
        assert fills("") == (Status.OK, 0)
        for call in ("cuLaunchKernel", "cuStreamSynchronize"):
            assert fills(f"{call}=801") == (Status.ERROR_DRIVER, 0)
            assert fills("cuMemsetD8Async=801") == (Status.ERROR_DRIVER, 1)
            assert fills("") == (Status.OK, 1)
            assert fills("") == (Status.OK, 0)
        """,
        FLAGS=0,
    )
