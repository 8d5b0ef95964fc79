"""Other GPU libraries: gpuvec uses their arrays and streams, and they use its memory.

Each case runs in a process of its own, on a machine with a GPU that has the library.
"""

import importlib.util
import textwrap

import pytest
from bindings import lib, why_cpu
from on_gpu import run_silently


def has_real_gpu() -> bool:
    """Returns whether there is a GPU that is not the fake driver's."""
    return lib.gpuvec_device_count() > 0 and b"Fake device" not in lib.gpuvec_device_name(0)


pytestmark = pytest.mark.skipif(not has_real_gpu(), reason=why_cpu() or "the GPU is a fake")


def needs(module: str):
    """Skips a test if a Python module is not installed."""
    found = importlib.util.find_spec(module)
    return pytest.mark.skipif(found is None, reason=f"{module} is not installed")


# The functions of each library that the tests call: `arange` makes an array on the GPU; `address`
# returns an array's address; `host` copies an array to NumPy after the current stream's work;
# `view` makes an array of gpuvec's memory; `state` must not be changed by gpuvec; `streams` yields
# contexts that make the default or another stream current; `native` is the current stream's handle
# in the driver.
LIBRARIES = {
    "torch": """
    import torch
    def arange(n): return torch.arange(n, device="cuda", dtype=torch.float32)
    def address(array): return array.data_ptr()
    def host(array): return array.cpu().numpy()
    def view(memory): return torch.as_tensor(memory, device="cuda")
    def state(): return torch.cuda.current_device(), torch.cuda.current_stream()
    def streams():
        yield torch.cuda.stream(torch.cuda.default_stream())
        yield torch.cuda.stream(torch.cuda.Stream())
    def native(): return torch.cuda.current_stream().cuda_stream
    """,
    "cupy": """
    import cupy
    def arange(n): return cupy.arange(n, dtype=cupy.float32)
    def address(array): return array.data.ptr
    def host(array): return cupy.asnumpy(array)
    def view(memory): return cupy.asarray(memory)
    def state(): return cupy.cuda.Device().id, cupy.cuda.get_current_stream().ptr
    def streams():
        yield cupy.cuda.Stream.null
        yield cupy.cuda.Stream.ptds
        yield cupy.cuda.Stream(non_blocking=True)
        yield cupy.cuda.Stream()
    def native(): return cupy.cuda.get_current_stream().ptr
    """,
}

EVERY_CASE = """
import warnings
from streams import Resources, ok

warnings.simplefilter("ignore")
driver = Driver()
resources = Resources()

class Ours:
    # Memory of gpuvec_device_alloc, as any library accepts it.
    def __init__(self, n):
        self.address = resources.device_memory(4 * n).address
        data = (self.address, False)
        self.__cuda_array_interface__ = {
            "shape": (n,), "typestr": "<f4", "data": data, "strides": None, "version": 2}

def unchanged(before):
    assert (state(), driver.current()) == before

def lengths_with_each_placement():
    for placement in (Place.AUTO, Place.GPU):
        place(placement)
        yield from SIZES

def adopted(native_stream):
    stream = lib.gpuvec_stream_from_native(native_stream)
    assert stream, last_error()
    return stream

def adopted_streams():
    # gpuvec's handle of each of the library's streams, while that stream is current.
    for current in streams():
        with current:
            yield adopted(native())
"""

each_library = pytest.mark.parametrize(
    "library",
    [pytest.param(text, marks=needs(name), id=name) for name, text in LIBRARIES.items()],
)
each_order = pytest.mark.parametrize("order", ["before", "after"])


def run_beside(library: str, order: str, work: str) -> None:
    """Runs work with a library that is imported before gpuvec's first call, or after it."""
    first = "check_all()" if order == "after" else ""
    parts = [first, library, EVERY_CASE, work, "resources.close()"]
    run_silently("\n".join(textwrap.dedent(part) for part in parts))


@each_order
@each_library
def test_arrays_of_other_libraries(library, order):
    """Calls without a stream follow work of the other library's default stream, and the reverse."""
    work = """
    for n in lengths_with_each_placement():
        a = arange(n)
        out = a * 0
        before = state(), driver.current()
        # The call needs the result of this work, which nothing waits for.
        a += 1
        for in_place in (False, True):
            to = a if in_place else out
            call = lib.vector_add(address(a), address(a), address(to), n)
            assert call == Status.OK, last_error()
            assert last_run().backend == Backend.GPU
            check(n)
            unchanged(before)
            assert (host(to + 0) == 2 * np.arange(1, n + 1, dtype=np.float32)).all()
    """
    run_beside(library, order, work)


@each_order
@each_library
def test_streams_of_other_libraries(library, order):
    """Work that both libraries queue on one stream is done in order."""
    work = """
    def use(stream, n):
        a, total = arange(n), arange(1)
        out, back = a * 0, np.zeros(n, np.float32)
        before = state(), driver.current()
        # Nothing waits for the stream in between.
        for number in range(10):
            a += 1
            ok(lib.gpuvec_add_f32(address(a), address(a), address(out), n, stream))
            assert last_run().backend == Backend.GPU
            assert last_run().bytes_staged == 0
            unchanged(before)
            out -= 1
            ok(lib.gpuvec_sub_f32(address(out), address(a), address(out), n, stream))
        ok(lib.gpuvec_sum_f32(address(out), address(total), n, stream))
        unchanged(before)
        expected = np.arange(n, dtype=np.float32) + 9
        assert (host(out) == expected).all()
        assert host(total) == np.float32(expected.sum(dtype=np.float64))
        ok(lib.gpuvec_copy(back.ctypes.data, address(a), 4 * n, stream))
        assert (back == expected + 1).all()
        ok(lib.gpuvec_stream_synchronize(stream))
        ok(lib.gpuvec_stream_query(stream))
        ok(lib.gpuvec_stream_destroy(stream))
        unchanged(before)
        # The other library's own stream remains usable.
        a += 1
        assert (host(a) == expected + 2).all()

    for n in lengths_with_each_placement():
        for stream in adopted_streams():
            use(stream, n)
    """
    run_beside(library, order, work)


@each_order
@each_library
def test_streams_of_both_libraries_wait_for_each_other(library, order):
    """Streams of both libraries wait for each other through events, without the caller."""
    work = """
    place(Place.GPU)
    n = LARGE
    for theirs in adopted_streams():
        ours, there, here = resources.stream(), resources.event(), resources.event()
        a = arange(n)
        for number in range(10):
            a += 1
            ok(lib.gpuvec_event_record(there, theirs))
            ok(lib.gpuvec_stream_wait(ours, there))
            ok(lib.gpuvec_add_f32(address(a), address(a), address(a), n, ours))
            ok(lib.gpuvec_sub_f32(address(a), address(a), address(a), n, ours))
            ok(lib.gpuvec_event_record(here, ours))
            ok(lib.gpuvec_stream_wait(theirs, here))
            a += number
        assert (host(a) == 9).all()
        ok(lib.gpuvec_stream_destroy(theirs))
    """
    run_beside(library, order, work)


@each_order
@each_library
def test_memory_of_gpuvec_in_other_libraries(library, order):
    """Other libraries' kernels use memory of gpuvec on their own streams."""
    work = """
    place(Place.AUTO)
    for n in SIZES:
        for stream in adopted_streams():
            ours = Ours(n)
            values = np.arange(n, dtype=np.float32)
            ok(lib.gpuvec_copy(ours.address, values.ctypes.data, values.nbytes, stream))
            array = view(ours)
            assert address(array) == ours.address
            for _ in range(3):
                array += 1
                ok(lib.gpuvec_sub_f32(*[address(array)] * 3, n, stream))
                array += arange(n)
            assert (host(array) == values).all()
            del array
            ok(lib.gpuvec_stream_destroy(stream))
    """
    run_beside(library, order, work)


@each_order
@needs("numba")
def test_device_arrays_of_numba(order):
    """Objects with a __cuda_array_interface__ have an address; Numba's streams are adopted too."""
    library = """
    import numba.cuda
    def address(array): return array.__cuda_array_interface__["data"][0]
    def native(stream): return getattr(stream.handle, "value", None) or int(stream.handle)
    def state(): return int(numba.cuda.get_current_device().id)
    """
    work = """
    for n in lengths_with_each_placement():
        values = np.arange(n, dtype=np.float32)
        a, out = numba.cuda.to_device(values), numba.cuda.device_array(n, np.float32)
        before = state(), driver.current()
        ok(lib.gpuvec_add_f32(address(a), address(a), address(out), n, None))
        assert last_run().backend == Backend.GPU
        unchanged(before)
        assert (out.copy_to_host() == 2 * values).all()
        theirs = numba.cuda.stream()
        stream = adopted(native(theirs))
        before = state(), driver.current()
        for _ in range(3):
            a.copy_to_device(values, stream=theirs)
            ok(lib.gpuvec_add_f32(address(a), address(a), address(a), n, stream))
            ok(lib.gpuvec_add_f32(address(a), address(a), address(a), n, stream))
            unchanged(before)
            back = a.copy_to_host(stream=theirs)
            theirs.synchronize()
            assert (back == 4 * values).all()
        ok(lib.gpuvec_stream_destroy(stream))
        theirs.synchronize()
        ours = numba.cuda.as_cuda_array(Ours(n))
        ours.copy_to_device(values)
        ok(lib.gpuvec_add_f32(address(ours), address(a), address(ours), n, None))
        assert (ours.copy_to_host() == 5 * values).all()
    """
    run_beside(library, order, work)
