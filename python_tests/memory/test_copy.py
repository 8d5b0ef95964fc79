"""gpuvec_copy: bytes from any kind of memory to any other, in any direction, at any address."""

import itertools

import numpy as np
import pytest
from bindings import Place, Status, last_error, lib, placed, why_cpu
from streams import KINDS, Memory, driver_of, ok

needs_gpu = pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")

MIB = 1 << 20
# Lengths, and the offsets of source and target in their memory, in bytes.
OFFSETS = [(0, 0), (1, 0), (0, 3), (5, 4099)]
SHORT = list(itertools.product([0, 1, 3, 4095, 4096, 4097], OFFSETS))
LONG = [(5 * MIB + 3, (5, 4099))]
MARGIN = 8192

PAIRS = list(itertools.product(KINDS, KINDS))
each_pair = pytest.mark.parametrize("to, source", PAIRS, ids=[f"{b} to {a}" for a, b in PAIRS])
on_streams = pytest.mark.parametrize("on_stream", [False, True], ids=["at once", "on a stream"])


def copy(to: Memory, source: Memory, bytes_: int, stream=None) -> int:
    """Copies from the beginning of one memory to that of another and returns the status."""
    return lib.gpuvec_copy(to.address, source.address, bytes_, stream)


def any_bytes(size: int, seed: int = 1) -> np.ndarray:
    """Returns random bytes."""
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


@pytest.mark.parametrize("cases", [SHORT, LONG], ids=["short", "long"])
@on_streams
@each_pair
def test_all_kinds_lengths_and_offsets(placement, resources, to, source, on_stream, cases):
    """All bytes arrive, and nothing around them is written."""
    size = cases[-1][0] + MARGIN
    values, before = any_bytes(size, 1), any_bytes(size, 2)
    from_memory, to_memory = resources.array(source, values), resources.memory(to, size)
    stream = resources.stream() if on_stream else None
    for bytes_, (start, end) in cases:
        to_memory.put(before)
        ok(lib.gpuvec_copy(to_memory.address + end, from_memory.address + start, bytes_, stream))
        ok(lib.gpuvec_stream_synchronize(stream))
        expected = before.copy()
        expected[end : end + bytes_] = values[start : start + bytes_]
        assert np.array_equal(to_memory.get(), expected), (bytes_, start, end)
    assert np.array_equal(from_memory.get(), values)


def test_structured_arrays_go_there_and_back(placement, resources):
    """Arrays of records of 13 bytes are copied to a device and back."""
    record = np.dtype([("name", "S3"), ("mass", "<f8"), ("count", "<u2")])
    assert record.itemsize == 13
    values = np.zeros(100_003, record)
    values["name"], values["mass"] = b"abc", np.arange(values.size)
    values["count"] = np.arange(values.size) % 65_536
    memory, back = resources.memory("device", values.nbytes), np.zeros_like(values)
    ok(lib.gpuvec_copy(memory.address, values.ctypes.data, values.nbytes, None))
    ok(lib.gpuvec_copy(back.ctypes.data, memory.address, values.nbytes, None))
    assert (back == values).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_onto_itself_does_nothing(placement, resources, kind):
    values = any_bytes(10_000)
    memory = resources.array(kind, values)
    ok(copy(memory, memory, 10_000))
    assert np.array_equal(memory.get(), values)


@pytest.mark.parametrize("kind", KINDS)
def test_overlap_is_an_error(placement, resources, kind):
    """A shared byte is an error in both directions; adjacent ranges are fine."""
    values = any_bytes(10_000)
    memory = resources.array(kind, values)
    at, bytes_ = memory.address, 4000
    for shift in (1, 3, 100, bytes_ - 1):
        for to, source in [(at, at + shift), (at + shift, at)]:
            assert lib.gpuvec_copy(to, source, bytes_, None) == Status.ERROR_OVERLAP
            assert "dst" in last_error() and "src" in last_error()
    assert np.array_equal(memory.get(), values)
    ok(lib.gpuvec_copy(at, at + bytes_, bytes_, None))
    values[:bytes_] = values[bytes_ : 2 * bytes_]
    assert np.array_equal(memory.get(), values)


def test_wrong_pointers_and_sizes(placement, resources):
    """Wrong arguments are errors that name the argument; a copy of no bytes checks no pointer."""
    memory = resources.array("pinned", any_bytes(100))
    at = memory.address
    before = memory.get()
    for to, source, name in [(None, at, "dst"), (at, None, "src"), (None, None, "")]:
        assert lib.gpuvec_copy(to, source, 5, None) == Status.ERROR_NULL
        assert f"{name} is NULL" in last_error()
        ok(lib.gpuvec_copy(to, source, 0, None))
    for bytes_ in (2**63, 2**64 - 1, 2**64 - at + 1):
        assert lib.gpuvec_copy(at, at + 50, bytes_, None) == Status.ERROR_SIZE
        assert last_error() == f"bytes is {bytes_}: more than the address space holds"
    assert np.array_equal(memory.get(), before)


@needs_gpu
@pytest.mark.parametrize("other", KINDS)
@pytest.mark.parametrize("end", ["dst", "src"])
def test_a_device_range_that_is_too_short(resources, on_gpu, end, other):
    """The error names the argument, its length and the needed one, and nothing is copied."""
    values = any_bytes(10_000)
    for stream in (None, resources.stream()):
        short, long = resources.array("device", values[:5000]), resources.array(other, values)
        to, source = (short.address + 7, long.address)[:: 1 if end == "dst" else -1]
        assert lib.gpuvec_copy(to, source, 4994, stream) == Status.ERROR_OUT_OF_BOUNDS
        assert end in last_error() and "4993" in last_error() and "4994" in last_error()
        assert np.array_equal(short.get(), values[:5000])
        assert np.array_equal(long.get(), values)
        ok(lib.gpuvec_copy(to, source, 4993, stream))
        ok(lib.gpuvec_stream_synchronize(stream))
        into = short.get()[7:] if end == "dst" else long.get()[:4993]
        assert np.array_equal(into, values[:4993] if end == "dst" else values[7:5000])


@needs_gpu
@pytest.mark.parametrize("bytes_", [100, 3 * MIB])
@pytest.mark.parametrize("end", ["dst", "src"])
@pytest.mark.parametrize("place", [Place.AUTO, Place.GPU])
def test_freed_device_memory_is_an_error(resources, place, end, bytes_):
    with placed(place):
        pinned = resources.array("pinned", any_bytes(bytes_))
        before = pinned.get()
        gone = lib.gpuvec_device_alloc(bytes_, 0)
        ok(lib.gpuvec_copy(gone, pinned.address, bytes_, None))
        # Nothing may be allocated between here and the copy: it could get the freed address.
        ok(lib.gpuvec_device_free(gone))
        to, source = (gone, pinned.address)[:: 1 if end == "dst" else -1]
        assert lib.gpuvec_copy(to, source, bytes_, None) == Status.ERROR_POINTER, last_error()
        assert last_error().startswith(f"{end} is {gone:#x}")
        assert np.array_equal(pinned.get(), before)


def test_a_copy_without_a_stream_is_done_when_it_returns(placement, resources):
    """After the copy the caller may change its source and read its target."""
    n = 2 * MIB
    there, back = resources.memory("device", n), resources.memory("pinned", n)
    pageable = np.empty(n, np.uint8)
    for number in range(20):
        pageable[:] = number
        ok(lib.gpuvec_copy(there.address, pageable.ctypes.data, n, None))
        pageable[:] = 255
        ok(copy(back, there, n))
        assert (back.view() == number).all()


@needs_gpu
def test_the_callers_context_stays_current(resources, on_gpu):
    """Copies of any memory leave the context alone."""
    size = 100_000
    arrays = {kind: resources.array(kind, any_bytes(size)) for kind in KINDS}
    driver, stream = driver_of(0), resources.stream()
    before = driver.current()
    driver.set_current(None)
    other = driver.new_context()
    for to, source in PAIRS:
        if to != source:
            for on in (None, stream):
                ok(copy(arrays[to], arrays[source], size, on))
                assert driver.current() == other.value
    ok(lib.gpuvec_stream_synchronize(stream))
    driver.call("cuCtxDestroy_v2", other)
    driver.set_current(before)


@needs_gpu
def test_a_copy_sees_earlier_work_of_the_default_stream(resources, on_gpu):
    """A copy follows all work that was queued there earlier, with a stream and without."""
    n = 1 << 24
    there, back = resources.memory("device", 4 * n), resources.memory("pinned", 4 * n)
    stream = resources.stream()
    driver = driver_of(0)
    for value, on in enumerate([None, stream] * 5):
        with driver.entered():
            driver.fill_later(there.address, value, n)
        ok(copy(back, there, 4 * n, on))
        ok(lib.gpuvec_stream_synchronize(on))
        assert (back.view(np.uint32) == value).all()


@needs_gpu
@pytest.mark.parametrize("source", KINDS)
def test_placement_cpu_copies_as_well(resources, source):
    """Copies of any memory come after the stream's earlier work."""
    size = 100_003
    with placed(Place.GPU):
        first = resources.array("pinned", any_bytes(size))
        from_memory = resources.memory(source, size)
        arrays = {kind: resources.memory(kind, size) for kind in KINDS}
        streams = [None, resources.stream()]
    for seed, ((kind, to), stream) in enumerate(itertools.product(arrays.items(), streams)):
        first.put(any_bytes(size, seed))
        with placed(Place.GPU):
            ok(copy(from_memory, first, size, stream))
        with placed(Place.CPU):
            ok(copy(to, from_memory, size, stream))
            ok(lib.gpuvec_stream_synchronize(stream))
        assert np.array_equal(to.get(), any_bytes(size, seed)), (kind, stream)
