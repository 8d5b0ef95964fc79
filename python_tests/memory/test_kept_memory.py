"""Device memory that was freed serves later allocations of its size, and never an old owner."""

import pytest
from bindings import Place, Status, last_error, lib, placed
from on_fake_driver import needs_fake_driver, run
from streams import has_gpu

MIB = 1 << 20


@needs_fake_driver
def test_allocations_of_one_size_reuse_memory():
    """The driver allocates once for a loop of results; every other size gets memory of its own."""
    run(
        """
        lib.gpuvec_set_placement(Place.GPU)
        def allocate(size):
            address = lib.gpuvec_device_alloc(size, 0)
            assert address, last_error()
            return address
        first = allocate(1 << 20)
        assert lib.gpuvec_device_free(first) == Status.OK
        fake_driver.plan("")
        for _ in range(10):
            again = allocate(1 << 20)
            assert again == first and lib.gpuvec_device_of(first) == 0
            assert lib.gpuvec_device_free(first) == Status.OK
            assert lib.gpuvec_device_free(first) == Status.ERROR_POINTER
            assert lib.gpuvec_device_of(first) == -1
        calls = fake_driver.calls()
        assert "cuMemAlloc_v2" not in calls and "cuMemFree_v2" not in calls
        one, two, other = allocate(1 << 20), allocate(1 << 20), allocate((1 << 20) - 1)
        assert one == first and len({one, two, other}) == 3
        """
    )


@needs_fake_driver
def test_what_is_kept_is_bounded():
    """At most 512 MiB and 64 blocks, of 64 KiB at least; other blocks are freed at once."""
    run(
        """
        lib.gpuvec_set_placement(Place.GPU)
        lib.gpuvec_device_free(lib.gpuvec_device_alloc(8, 0))
        from streams import driver_of
        def held():
            with driver_of(0).entered() as driver:
                return before - driver.free_bytes()
        before = 0
        before = -held()
        def pass_through(*sizes):
            addresses = [lib.gpuvec_device_alloc(size, 0) for size in sizes]
            assert all(addresses), last_error()
            assert {lib.gpuvec_device_free(address) for address in addresses} == {Status.OK}
        pass_through((1 << 16) - 1, (512 << 20) + 1)
        assert held() == 0
        pass_through(*(300 << 20, 200 << 20))
        assert held() == 500 << 20
        pass_through(100 << 20)
        assert held() == 300 << 20
        pass_through(*[1 << 16] * 70)
        assert held() <= 64 << 16
        """
    )


@needs_fake_driver
def test_kept_memory_is_freed_where_too_little_is_left():
    """An allocation gets it; if the driver refuses to free it, only the next allocation does."""
    run(
        """
        lib.gpuvec_set_placement(Place.GPU)
        def keep():
            kept = lib.gpuvec_device_alloc(400 << 20, 0)
            assert kept, last_error()
            assert lib.gpuvec_device_free(kept) == Status.OK
        def use():
            large = lib.gpuvec_device_alloc(700 << 20, 0)
            why = last_error()
            assert lib.gpuvec_device_free(large) == Status.OK
            return why
        keep()
        fake_driver.plan("")
        assert use() == ""
        free = fake_driver.calls().index("cuMemFree_v2") + 1
        keep()
        fake_driver.plan(f"{free}=999")
        assert "CUDA_ERROR_OUT_OF_MEMORY" in use()
        fake_driver.plan("")
        assert use() == ""
        """
    )


@pytest.mark.parametrize("bytes_", [100, 3 * MIB])
def test_freed_memory_serves_no_call(bytes_):
    """A call on it is an error, although its bytes are kept."""
    if not has_gpu():
        pytest.skip("the system decides what becomes of freed memory")
    with placed(Place.GPU):
        memory, other = (lib.gpuvec_device_alloc(bytes_, 0) for _ in range(2))
        assert lib.gpuvec_device_free(memory) == Status.OK
        for source, to in ((memory, other), (other, memory + bytes_ // 2)):
            half = bytes_ // 2
            assert lib.gpuvec_copy(to, source, half, None) == Status.ERROR_POINTER, last_error()
        assert lib.gpuvec_device_free(other) == Status.OK


def test_the_device_of_an_address(placement):
    """It is that of an allocation's first byte, and -1 for anything else."""
    memory, pinned = lib.gpuvec_device_alloc(4096, 0), lib.pinned_alloc(4096)
    assert lib.gpuvec_device_of(memory) == (0 if has_gpu() and placement != Place.CPU else -1)
    for other in (None, 8, memory + 8, pinned):
        assert lib.gpuvec_device_of(other) == -1
    assert lib.gpuvec_device_free(memory) == lib.pinned_free(pinned) == Status.OK
    assert lib.gpuvec_device_of(memory) == -1
