"""Pinned memory and device memory live exactly as long as they are used."""

import copy
import gc
import pickle
import weakref

import gpuvec
import numpy as np
import pytest
from fork import in_child
from programs import run_silently


def is_freed(address: int, free) -> bool:
    """Returns whether memory of the library's at an address was freed: it cannot be freed again."""
    gc.collect()
    return free(address) == gpuvec.Status.ERROR_POINTER


@pytest.mark.parametrize("shape", [(), 3, (3,), (2, 3, 4), (0, 4)])
@pytest.mark.parametrize("dtype", [np.float32, "i8", np.uint8, "f4,i4", "M8[s]"])
def test_shapes_and_types(placement, shape, dtype):
    """Any shape, and any type without Python objects, as NumPy's own functions take them."""
    like = np.empty(shape, dtype)
    for array in (gpuvec.pinned_empty(shape, dtype), gpuvec.pinned_like(like)):
        assert (array.shape, array.dtype) == (like.shape, like.dtype)
        assert array.flags.writeable and array.flags.c_contiguous
    device = gpuvec.DeviceArray(shape, dtype)
    assert (device.shape, device.dtype) == (like.shape, like.dtype)
    assert (device.size, device.nbytes, device.ndim) == (like.size, like.nbytes, like.ndim)


def test_zeros(placement):
    """Zeros, also in memory that held something else before."""
    gpuvec.pinned_empty(1000).fill(7)
    assert (gpuvec.pinned_zeros((10, 100)) == 0).all()


def test_pinned_like_with_another_type(placement):
    """The type can be another; the prototype can be in device memory."""
    array = gpuvec.pinned_like(gpuvec.DeviceArray((2, 3)), dtype=np.int64)
    assert (array.shape, array.dtype) == ((2, 3), np.int64)


@pytest.mark.parametrize("make", [gpuvec.pinned_empty, gpuvec.DeviceArray])
def test_impossible_arrays(placement, make):
    """Sizes that cannot be are NumPy's errors or the library's, with their status."""
    with pytest.raises(TypeError, match="Python objects"):
        make(3, object)
    with pytest.raises(ValueError, match="negative"):
        make(-1)
    with pytest.raises(gpuvec.Error) as raised:
        make(2**60)
    assert isinstance(raised.value, (MemoryError, ValueError))
    assert raised.value.status in (
        gpuvec.Status.ERROR_OUT_OF_MEMORY,
        gpuvec.Status.ERROR_SIZE,
    )


def test_pinned_memory_lives_as_long_as_its_last_view(placement):
    """Views, views of views and memoryviews keep it, and then it is freed."""
    array = gpuvec.pinned_zeros(1000, np.float64)
    address = array.ctypes.data
    views = [array[10:], array.reshape(10, 100)[3][1:], memoryview(array), array.view(np.int64)]
    del array
    while views:
        gc.collect()
        last = np.asarray(views.pop())
        assert (last == 0).all()
        last[...] = 0
    del last
    assert is_freed(address, gpuvec.functions.pinned_free)


def test_device_memory_lives_as_long_as_its_array(placement):
    """It is freed with the object, or with the last object of another library on it."""
    array = gpuvec.to_device(np.arange(3.0))
    address, shared = array.address, gpuvec.from_dlpack(array)
    del array
    gc.collect()
    assert (shared.to_host() == np.arange(3)).all()
    del shared
    assert is_freed(address, gpuvec.functions.gpuvec_device_free)


def test_pinned_arrays_are_used_in_place(placement):
    """Nothing of a pinned or a registered array is staged."""
    n = 3_000_000
    pinned, pageable = gpuvec.pinned_zeros(n), np.zeros(n, np.float32)
    gpuvec.add(pinned, pinned, out=pinned)
    assert gpuvec.last_run().bytes_staged == 0
    with gpuvec.pinned(pageable) as array:
        assert array is pageable
        gpuvec.add(array, array, out=array)
        assert gpuvec.last_run().bytes_staged == 0


def test_pinned_unregisters_at_the_end(placement):
    """Also after an exception; and an array can be registered more than once."""
    array = np.zeros(1000)
    unregister = gpuvec.functions.gpuvec_host_unregister
    with pytest.raises(KeyError), gpuvec.pinned(array), gpuvec.pinned(array):
        raise KeyError
    assert unregister(array.ctypes.data) == gpuvec.Status.ERROR_POINTER


def test_pinned_takes_any_buffer(placement):
    """A bytearray cannot be resized while it is page-locked; no elements need no lock."""
    memory = bytearray(100)
    with gpuvec.pinned(memory), pytest.raises(BufferError):
        memory.append(0)
    memory.append(0)
    with gpuvec.pinned(np.zeros(0)):
        pass
    with pytest.raises(ValueError, match="array is not C-contiguous"):
        gpuvec.pinned(np.zeros(4)[::2]).__enter__()


def test_device_arrays_describe_themselves(placement):
    """repr, len and the properties of an ndarray."""
    array = gpuvec.to_device(np.arange(8, dtype=np.float64).reshape(2, 4).T[:3])
    place = f"dtype=float64, {'host memory' if array.device is None else 'GPU 0'})"
    assert repr(array) == f"gpuvec.DeviceArray([0., 4., 1., 5., 2., 6.], shape=(3, 2), {place}"
    shown = [
        (array[:1], "[0., 4.], shape=(1, 2)"),
        (array[0, 1], "[4.], shape=()"),
        (array[3:], "[], shape=(0, 2)"),
        (gpuvec.to_device(np.arange(7.0)), "[0., 1., 2., 3., 4., 5., ...], shape=(7,)"),
    ]
    for one, text in shown:
        assert repr(one) == f"gpuvec.DeviceArray({text}, {place}"
    assert len(array) == 3
    with pytest.raises(TypeError):
        len(gpuvec.DeviceArray(()))
    assert (array.device is None) == (gpuvec.why_cpu() != "")


def test_device_arrays_are_not_converted_implicitly(placement):
    """NumPy gets elements of a device only by an explicit call of the program."""
    array = gpuvec.to_device(np.ones(3))
    for convert in (np.asarray, np.sum, np.sqrt, lambda array: np.stack([np.ones(3), array])):
        with pytest.raises(TypeError, match="to_host()"):
            convert(array)


@pytest.mark.parametrize("make", [lambda: gpuvec.DeviceArray(3), gpuvec.Stream, gpuvec.Event])
@pytest.mark.parametrize("move", [pickle.dumps, copy.copy, copy.deepcopy])
def test_objects_belong_to_their_process(make, move):
    """A copy of a handle or of an address would be freed twice."""
    with pytest.raises(TypeError, match="belongs to its process"):
        move(make())


def test_wrong_devices(placement):
    """A device that does not exist is an error of the argument."""
    for make in (lambda: gpuvec.DeviceArray(3, device=99), lambda: gpuvec.Stream(99)):
        with pytest.raises(gpuvec.ArgumentError, match="device is 99") as raised:
            make()
        assert raised.value.status is gpuvec.Status.ERROR_VALUE
    for use in (lambda device: gpuvec.DeviceArray(3, device=device), gpuvec.Stream):
        with pytest.raises(ValueError, match="device is 4294967296"):
            use(2**32)
        with pytest.raises(TypeError):
            use("0")


def test_copies_between_all_kinds(placement):
    """Structures, bytes and numbers, between host, pinned and device memory."""
    values = np.array([(1, 2.5), (3, 4.5)], "i4,f8")
    kinds = [np.zeros_like(values), gpuvec.pinned_like(values), gpuvec.to_device(values)]
    for source in kinds:
        gpuvec.copy(source, values)
        for destination in kinds:
            gpuvec.copy(destination, source)
            back = np.zeros_like(values)
            gpuvec.copy(back, destination)
            assert (back == values).all()
    memory = bytearray(values.nbytes)
    gpuvec.copy(memory, values)
    assert memory == values.tobytes()
    gpuvec.copy(kinds[2], bytes(memory))
    assert (kinds[2].to_host() == values).all()


@pytest.mark.parametrize(
    "dst, src, error, text",
    [
        (np.zeros(2), np.zeros(3), ValueError, "dst has shape .2,. and src has shape|has .3,."),
        (np.zeros(2), np.zeros(2, "f4"), TypeError, "dst has dtype float64 and src has float32"),
        (np.zeros(4)[::2], np.zeros(2), ValueError, "dst is not C-contiguous"),
        (np.zeros(2), np.zeros(4)[::2], ValueError, "src is not C-contiguous"),
        (bytes(16), np.zeros(2), ValueError, "dst is read-only"),
        (bytearray(15), np.zeros(2), ValueError, "dst has 15 bytes"),
        (np.zeros(2, object), np.zeros(2, object), TypeError, "Python objects"),
        ([0, 0], np.zeros(2), TypeError, "dst is a builtins.list"),
    ],
)
def test_wrong_copies(dst, src, error, text):
    """The error names the argument."""
    with pytest.raises(error, match=text):
        gpuvec.copy(dst, src)


def test_memory_after_fork(on_cpu):
    """A child reads and writes its own copy, and frees it, and the parent's stays as it is."""
    pinned, device = gpuvec.pinned_zeros(1000), gpuvec.to_device(np.ones(1000))

    def child():
        nonlocal pinned, device
        assert gpuvec.sum(pinned) == 0 and gpuvec.sum(device) == 1000
        pinned[:] = 1
        alive = weakref.ref(pinned)
        del pinned, device
        gc.collect()
        assert alive() is None

    in_child(child)
    assert gpuvec.sum(pinned) == 0 and gpuvec.sum(device) == 1000


def test_memory_at_exit(placement_variables):
    """Arrays that outlive the interpreter's exit handlers can be used until the process ends."""
    script = """
    import atexit
    import gpuvec, numpy as np

    class Last:
        def __del__(self):
            assert kept[0][0] == 7 and kept[1].shape == (1000,)
            kept[0][:] = 8

    kept = gpuvec.pinned_empty(1000), gpuvec.DeviceArray(1000), gpuvec.Stream(), gpuvec.Event()
    kept[0][:] = 7
    gpuvec.add(kept[1], kept[1], out=kept[1], stream=kept[2])
    view = kept[0][10:]
    atexit.register(lambda: gpuvec.add(view, view, out=view) is view or exit(1))
    builtin = __import__("builtins")
    builtin.last = Last()
    """
    run_silently(script, **placement_variables)
