"""gpuvec_device_alloc and gpuvec_host_register: memory of a device, and page-locked arrays.

Without a GPU, or with placement cpu, device memory is ordinary memory and works the same.
"""

import ctypes
import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from bindings import Backend, PathBit, Place, Status, last_error, last_run, lib, placed, why_cpu
from fake_driver import FakeDriver
from fork import in_child
from host import MARGIN, MIB, resident_bytes
from streams import KINDS, Memory, device_count, driver_of, has_gpu, ok

needs_gpu = pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")

ROUNDS = 10_000
INT64_MAX = 2**63 - 1


def add(a: int, b: int, out: int, n: int) -> int:
    """Calls gpuvec_add_f32 without a stream and returns the status."""
    return lib.gpuvec_add_f32(a, b, out, n, None)


def assert_adds(memory: Memory) -> None:
    """Adds memory of floats to itself, in place, and checks the result."""
    before = memory.get(np.float32)
    assert add(memory.address, memory.address, memory.address, before.size) == 0, last_error()
    assert np.array_equal(memory.get(np.float32), before + before)


@pytest.mark.parametrize("bytes_", [0, 1, 4095, 4096, 4097, 1_000_000, 129 * MIB])
def test_any_size(placement, resources, bytes_):
    """The memory keeps all bytes that are copied there."""
    memory = resources.device_memory(bytes_)
    assert memory.address % 8 == 0
    values = np.random.default_rng(bytes_).integers(0, 256, bytes_, np.uint8)
    back = np.zeros_like(values)
    ok(lib.gpuvec_copy(memory.address, values.ctypes.data, bytes_, None))
    ok(lib.gpuvec_copy(back.ctypes.data, memory.address, bytes_, None))
    assert np.array_equal(back, values)


def test_operations_use_it_in_place(placement, resources):
    for n in (1, 1000, 3_000_001):
        memory = resources.array("device", np.arange(n, dtype=np.float32))
        assert_adds(memory)
        run = last_run()
        assert run.bytes_staged == 0
        if has_gpu():
            assert (run.backend, run.path) == (Backend.GPU, PathBit.RESIDENT)
        else:
            assert run.backend == Backend.CPU


def test_every_device_has_its_own(placement, resources):
    for device in range(device_count()):
        values = np.full(1000, device + 1, np.float32)
        memory = resources.device_memory(values.nbytes, device)
        memory.put(values)
        assert_adds(memory)
        assert last_run().devices == (1 << device if has_gpu() else 0)


def test_many_at_once_do_not_overlap(placement, resources):
    arrays = [resources.array("device", np.full(1000 + i, i, np.int32)) for i in range(100)]
    for number, array in enumerate(arrays):
        assert (array.get(np.int32) == number).all()


@pytest.mark.parametrize("beyond", [-(2**31), -1, "count", 2**31 - 1])
def test_a_device_that_does_not_exist(placement, beyond):
    device = device_count() if beyond == "count" else beyond
    assert lib.gpuvec_device_alloc(4096, device) is None
    assert f"device is {device}" in last_error()


@pytest.mark.parametrize("bytes_", [2**64 - 1, 2**63, 2**63 - 4096, 2**62, "a device's and more"])
def test_more_memory_than_the_device_has(placement, resources, bytes_):
    """The allocation fails with a reason and takes no memory."""
    if bytes_ == "a device's and more":
        if not has_gpu():
            pytest.skip("the system decides how much memory a process may have")
        with driver_of(0).entered() as driver:
            _, bytes_ = driver.memory_bytes()
            bytes_ += MIB
    address = lib.gpuvec_device_alloc(bytes_, 0)
    why = last_error()
    # Other tests need the memory, if this one fails.
    lib.gpuvec_device_free(address)
    assert address is None and why != ""
    resources.array("device", np.ones(1000, np.float32))


def test_placement_gpu_without_a_gpu():
    if has_gpu():
        pytest.skip("there is a GPU")
    with placed(Place.GPU):
        assert lib.gpuvec_device_alloc(4096, 0) is None
        assert "no usable GPU" in last_error()


def test_addresses_that_cannot_be_freed(placement, resources):
    """Only the beginning of an allocation can be freed, and NULL."""
    ok(lib.gpuvec_device_free(None))
    ours = [resources.array(kind, np.arange(1000, dtype=np.float32)) for kind in KINDS]
    *others, device, _ = ours
    others_addresses = [memory.address for memory in others]
    for address in (8, 2**64 - 8, device.address + 8, device.address + 256, *others_addresses):
        assert lib.gpuvec_device_free(address) == Status.ERROR_POINTER
        assert f"ptr is {address:#x}" in last_error()
    for function in (lib.pinned_free, lib.gpuvec_host_unregister):
        assert function(device.address) == Status.ERROR_POINTER
    for memory in ours:
        assert_adds(memory)


def test_freed_once(placement):
    """Memory can be freed in any order, and never twice."""
    addresses = [lib.gpuvec_device_alloc(bytes_, 0) for bytes_ in (1, 4096, MIB, 5 * MIB)]
    assert all(addresses) and len(set(addresses)) == len(addresses)
    for address in addresses[1::2] + addresses[::2]:
        ok(lib.gpuvec_device_free(address))
    for address in addresses:
        assert lib.gpuvec_device_free(address) == Status.ERROR_POINTER


def test_memory_outlives_a_change_of_placement(placement):
    """Memory can be freed with every other placement, and does not leak."""
    for other in (Place.AUTO, Place.CPU):
        address = lib.gpuvec_device_alloc(MIB, 0)
        assert address
        with placed(other):
            ok(lib.gpuvec_device_free(address))
            assert lib.gpuvec_device_free(address) == Status.ERROR_POINTER


def test_without_a_gpu_it_is_the_hosts(resources, on_cpu):
    """The host can access the memory, and calls may mix it with other arrays."""
    memory = resources.array("device", np.arange(1000, dtype=np.float32))
    ctypes.memset(memory.address, 0, 2000)
    with placed(Place.AUTO):
        assert_adds(memory)
    assert_adds(memory)
    assert (memory.view(np.float32)[:500] == 0).all() and memory.view(np.float32)[999] == 3996


def test_a_forked_child_forgets_its_parents(placement, resources):
    memory = resources.array("device", np.arange(1000, dtype=np.float32))

    def child():
        with placed(Place.AUTO):
            ok(lib.gpuvec_device_free(memory.address))
            assert lib.gpuvec_device_free(memory.address) == Status.ERROR_POINTER
            own = lib.gpuvec_device_alloc(4096, 0)
            assert own, last_error()
            ctypes.memset(own, 1, 4096)
            ok(lib.gpuvec_device_free(own))

    in_child(child)
    assert_adds(memory)


# Rounds that allocate or register memory and release it.
def device_round(number: int) -> None:
    address = lib.gpuvec_device_alloc(number * 67 % 50_000, 0)
    assert address and lib.gpuvec_device_free(address) == Status.OK


def pinned_round(number: int) -> None:
    address = lib.pinned_alloc(number * 67 % 50_000)
    assert address and lib.pinned_free(address) == Status.OK


ARRAY = np.zeros(100_000, np.uint8)


def registered_round(number: int) -> None:
    address = ARRAY.ctypes.data + number * 13 % 40_000
    assert lib.gpuvec_host_register(address, number * 67 % 50_000 + 1) == Status.OK
    assert lib.gpuvec_host_unregister(address) == Status.OK


def held() -> dict:
    """Returns the driver's counts of this process's objects."""
    if not has_gpu():
        return {}
    with driver_of(0).entered() as driver:
        found = {"free": driver.free_bytes()}
        if hasattr(driver.driver, "fake_driver_count"):
            found.update(FakeDriver().ledger())
    return found


@pytest.mark.parametrize("one_round", [device_round, pinned_round, registered_round])
def test_rounds_leave_nothing(placement, one_round):
    """Allocating and freeing again and again leaks nothing in the process or the driver."""

    def rounds(count):
        for number in range(count):
            one_round(number)

    rounds(500)
    before, resident = held(), resident_bytes()
    rounds(ROUNDS)
    assert held() == before
    assert resident_bytes() - resident <= MARGIN


def test_from_many_threads(placement):
    """Memory of one thread may be freed by another; no two allocations overlap."""
    threads = 16
    start = [lambda number=number: device_round(number) for number in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda work: [work() for _ in range(50)], start))
        sizes = [1, 4096, 100_000] * threads
        addresses = list(pool.map(lambda size: lib.gpuvec_device_alloc(size, 0), sizes))
        assert len(set(addresses)) == len(sizes) and None not in addresses
        assert set(pool.map(lib.gpuvec_device_free, reversed(addresses))) == {Status.OK}


# Registration: page-locking existing arrays.


@pytest.fixture
def block():
    """Page-aligned ordinary memory, filled with floats of 1."""
    owner = np.ones(MIB, np.float32)
    return owner[-owner.ctypes.data % 4096 // 4 :][: MIB - 1024]


def staged(array: np.ndarray) -> int:
    """Runs a checked operation on the array, in place, and returns the bytes that were staged."""
    before = array.copy()
    address = array.ctypes.data
    assert add(address, address, address, array.size) == 0, last_error()
    assert np.array_equal(array, before + before)
    array[:] = before
    return last_run().bytes_staged


def assert_locked(array: np.ndarray) -> None:
    """Fails unless a GPU accesses all of the array directly."""
    assert staged(array) == 0
    run = last_run()
    if run.backend == Backend.GPU:
        assert not run.path & PathBit.STAGED


def assert_unlocked(array: np.ndarray) -> None:
    """Fails unless the array is pageable, so that all that a GPU uses of it is staged."""
    copied = staged(array)
    assert (copied > 0) == (last_run().backend == Backend.GPU)


@pytest.mark.parametrize("n", [1, 1000, 300_001, 1_000_000])
@pytest.mark.parametrize("offset", [0, 1, 3, 1021])
def test_a_registered_array_is_not_staged(placement, block, offset, n):
    """Arrays of any alignment and length are not staged until they are unregistered."""
    array = block[offset : offset + n]
    ok(lib.gpuvec_host_register(array.ctypes.data, array.nbytes))
    assert_locked(array)
    assert_locked(array[n // 3 :])
    ok(lib.gpuvec_host_unregister(array.ctypes.data))
    assert_unlocked(array)


@pytest.mark.parametrize("offset, bytes_", [(1, 3), (3, 5001), (4095, 2), (2, 4096), (5, 99_991)])
def test_bytes_are_registered_at_any_address(placement, block, offset, bytes_):
    """Registered bytes need no alignment; whole elements inside them are not staged."""
    ok(lib.gpuvec_host_register(block.ctypes.data + offset, bytes_))
    inside = block[-(-offset // 4) : (offset + bytes_) // 4]
    if inside.size:
        assert_locked(inside)
    ok(lib.gpuvec_host_unregister(block.ctypes.data + offset))
    assert_unlocked(block[:5000])


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))], ids=str)
@pytest.mark.parametrize("n", [300, 1000, 2500])
def test_arrays_that_share_pages(placement, block, n, order):
    """Arrays that share pages are registered one by one and unregistered in any order."""
    arrays = [block[1 + number * n : 1 + (number + 1) * n] for number in range(3)]
    for array in arrays:
        ok(lib.gpuvec_host_register(array.ctypes.data, array.nbytes))
    left = list(order)
    while left:
        for number in left:
            assert_locked(arrays[number])
        ok(lib.gpuvec_host_unregister(arrays[left.pop(0)].ctypes.data))
    assert_unlocked(block[: 3 * n + 2])


@pytest.mark.parametrize("outer_first", [True, False])
@pytest.mark.parametrize("inner", [slice(0, 5000), slice(1, 5001), slice(70_001, 90_000)], ids=str)
def test_an_array_and_a_part_of_it(placement, block, inner, outer_first):
    """Arrays are registered inside one another and stay locked until each is unregistered."""
    outer, part = block[:90_000], block[inner]
    pair = [outer, part] if outer_first else [part, outer]
    for array in pair:
        ok(lib.gpuvec_host_register(array.ctypes.data, array.nbytes))
        assert_locked(array)
    for array in (outer, part):
        assert_locked(array)
    if pair[0].ctypes.data == pair[1].ctypes.data:
        for _ in range(2):
            ok(lib.gpuvec_host_unregister(outer.ctypes.data))
    else:
        ok(lib.gpuvec_host_unregister(pair[0].ctypes.data))
        assert_locked(pair[1])
        ok(lib.gpuvec_host_unregister(pair[1].ctypes.data))
    assert_unlocked(outer)
    assert lib.gpuvec_host_unregister(part.ctypes.data) == Status.ERROR_POINTER


@needs_gpu
def test_the_rest_of_an_arrays_pages_is_ordinary_memory(resources, on_gpu, block):
    """The other memory on those pages may be freed at any time, and is unlocked with the array.

    Therefore it is staged, and a call on a stream has finished with it on return."""
    array, behind = block[100:200], block[200:300]
    stream = resources.stream()
    ok(lib.gpuvec_host_register(array.ctypes.data, array.nbytes))
    for other in (block[:100], behind, block[50:150], block[150:250], block[:5000]):
        assert_unlocked(other)
        at, n = other.ctypes.data, other.size
        ok(lib.gpuvec_scale_f32(1, at, at, n, stream))
        assert last_run().bytes_staged > 0
    for inside in (array, array[:1], array[7:99]):
        assert_locked(inside)
    ok(lib.gpuvec_host_register(behind.ctypes.data, behind.nbytes))
    for both in (block[100:300], block[150:250]):
        assert_locked(both)
    for one in (array, behind):
        ok(lib.gpuvec_host_unregister(one.ctypes.data))


def test_each_registration_is_ended_once(placement, block):
    array = block[7:100_000]
    for _ in range(3):
        ok(lib.gpuvec_host_register(array.ctypes.data, array.nbytes))
    for _ in range(3):
        assert_locked(array)
        ok(lib.gpuvec_host_unregister(array.ctypes.data))
    assert_unlocked(array)
    assert lib.gpuvec_host_unregister(array.ctypes.data) == Status.ERROR_POINTER
    assert f"ptr is {array.ctypes.data:#x}" in last_error()


def test_ranges_that_cannot_be_registered(placement, block):
    """Each wrong range is an error that locks nothing and leaves the memory usable."""
    at = block.ctypes.data
    assert lib.gpuvec_host_register(None, 5) == Status.ERROR_NULL
    assert "ptr is NULL" in last_error()
    for bytes_ in (2**63, 2**64 - 1, 2**64 - at + 1):
        assert lib.gpuvec_host_register(at, bytes_) == Status.ERROR_SIZE
    assert lib.gpuvec_host_unregister(at) == Status.ERROR_POINTER
    ok(lib.gpuvec_host_register(at, 4096))
    for address in (at + 4, at + 4096, 8):
        assert lib.gpuvec_host_unregister(address) == Status.ERROR_POINTER
    ok(lib.gpuvec_host_unregister(at))
    assert_unlocked(block)


@needs_gpu
@pytest.mark.parametrize("place", [Place.AUTO, Place.GPU])
def test_unmapped_memory_cannot_be_locked(place):
    """The driver's error comes back, and nothing is registered."""
    with placed(place):
        assert lib.gpuvec_host_register(4096, 4096) != Status.OK
        assert last_error() != ""
        assert lib.gpuvec_host_unregister(4096) == Status.ERROR_POINTER


@needs_gpu
@pytest.mark.parametrize("kind", ["pinned", "foreign pinned"])
@pytest.mark.parametrize("part", [slice(None), slice(1, 500), slice(3000, None)], ids=str)
def test_memory_that_is_locked_already(placement, resources, kind, part):
    """Memory that is page-locked already stays so when a part of it is registered."""
    memory = resources.array(kind, np.ones(5000, np.float32))
    whole = memory.view(np.float32)
    ok(lib.gpuvec_host_register(whole[part].ctypes.data, whole[part].nbytes))
    assert_locked(whole)
    assert_locked(whole[part])
    ok(lib.gpuvec_host_unregister(whole[part].ctypes.data))
    assert_locked(whole)


@needs_gpu
@pytest.mark.parametrize("theirs_first", [True, False])
def test_an_array_that_another_library_registers_as_well(resources, on_gpu, block, theirs_first):
    """Memory that another library has locked stays locked until that library unlocks it."""
    array = block[:100_000]
    with driver_of(0).entered() as driver:
        there, bytes_ = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)

        def theirs() -> int:
            return driver.driver.cuMemHostRegister_v2(there, bytes_, ctypes.c_uint(0))

        if theirs_first:
            assert theirs() == 0
            ok(lib.gpuvec_host_register(array.ctypes.data, array.nbytes))
            assert_locked(array)
            ok(lib.gpuvec_host_unregister(array.ctypes.data))
            assert_locked(array)
            driver.call("cuMemHostUnregister", there)
        else:
            ok(lib.gpuvec_host_register(array.ctypes.data, array.nbytes))
            assert theirs() != 0
            assert_locked(array)
            ok(lib.gpuvec_host_unregister(array.ctypes.data))
    assert_unlocked(array)


@needs_gpu
def test_placement_cpu_locks_nothing_and_forgets_nothing(block, on_cpu):
    """An array is unregistered with another placement than it was registered with."""
    array = block[5:50_000]
    for first, then in [(Place.CPU, Place.GPU), (Place.GPU, Place.CPU)]:
        with placed(first):
            ok(lib.gpuvec_host_register(array.ctypes.data, array.nbytes))
        with placed(then):
            ok(lib.gpuvec_host_unregister(array.ctypes.data))
            assert lib.gpuvec_host_unregister(array.ctypes.data) == Status.ERROR_POINTER
        with placed(Place.GPU):
            assert_unlocked(array)


def test_a_forked_child_forgets_its_parents_registrations(placement, block):
    """The parent's registrations stay, and the child registers arrays of its own."""
    array = block[5:50_000]
    ok(lib.gpuvec_host_register(array.ctypes.data, array.nbytes))

    def child():
        with placed(Place.AUTO):
            ok(lib.gpuvec_host_unregister(array.ctypes.data))
            assert lib.gpuvec_host_unregister(array.ctypes.data) == Status.ERROR_POINTER
            ok(lib.gpuvec_host_register(array.ctypes.data, array.nbytes))
            assert staged(array) == 0
            ok(lib.gpuvec_host_unregister(array.ctypes.data))

    in_child(child)
    assert_locked(array)
    ok(lib.gpuvec_host_unregister(array.ctypes.data))


def test_a_freed_address_may_be_registered_again(placement):
    """The allocator reuses addresses; each time they are a new array."""
    for number in range(50):
        array = np.full(300_001, number, np.float32)
        ok(lib.gpuvec_host_register(array.ctypes.data, array.nbytes))
        assert_locked(array)
        ok(lib.gpuvec_host_unregister(array.ctypes.data))


def test_registered_from_many_threads(placement, block):
    """Several threads register arrays that share pages."""

    def work(number):
        array = block[number * 300 + 1 : (number + 1) * 300]
        for _ in range(30):
            ok(lib.gpuvec_host_register(array.ctypes.data, array.nbytes))
            assert_locked(array)
            ok(lib.gpuvec_host_unregister(array.ctypes.data))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    assert_unlocked(block)
