"""Device arrays of several axes: views, what they share, and exchange with other libraries."""

import gc

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from views import parts

HOST = np.arange(24, dtype=np.float32).reshape(4, 6)

INDEXES = [
    np.s_[1],
    np.s_[-1, 2],
    np.s_[1:3],
    np.s_[::-1, ::2],
    np.s_[..., 4:],
    np.s_[:, None, 1],
    np.s_[3:1:-1, -2:0:-3],
    np.s_[5:],
    np.int64(2),
    (),
    None,
    ...,
]


@pytest.mark.parametrize("index", INDEXES, ids=str)
def test_indexes(placement, index):
    """Views have the shape, the strides and the elements of NumPy's, also of one element."""
    x = gpuvec.to_device(HOST)
    view, wanted = x[index], np.asarray(HOST[index])
    assert isinstance(view, gpuvec.DeviceArray)
    assert view.shape == wanted.shape and view.dtype == wanted.dtype
    assert (view.ndim, view.size, view.nbytes) == (wanted.ndim, wanted.size, wanted.nbytes)
    if wanted.ndim:
        assert view.strides == wanted.strides and len(view) == len(wanted)
    assert_same_bits(view.to_host(), np.ascontiguousarray(wanted).reshape(wanted.shape))
    assert_same_bits(view.numpy(), view.to_host())
    if view.size:
        assert x.address <= view.address < x.address + x.nbytes


@pytest.mark.parametrize(
    "index, kind", [(True, "bool"), ([0, 1], "list"), (np.array([0]), "ndarray"), (1.0, "float")]
)
def test_indexes_that_select_no_view(placement, index, kind):
    """NumPy would make a copy."""
    x = gpuvec.to_device(HOST)
    for given_index in (index, (0, index)):
        with pytest.raises(
            TypeError, match=f"an index of a DeviceArray is of type {kind}: pass integers"
        ):
            x[given_index]
    with pytest.raises(IndexError, match="out of bounds"):
        x[4]
    with pytest.raises(TypeError, match="not iterable"):
        iter(x)


def test_fields_of_structured_arrays(placement):
    """The name of a field selects a view, which calls read and write; NumPy's error without one."""
    host = np.zeros((3, 5), [("id", np.int32), ("at", np.float32, 2), ("end", [("v", np.float32)])])
    host["id"], host["at"] = np.arange(15).reshape(3, 5), 0.5
    x = gpuvec.to_device(host)
    for view, wanted in [
        (x["id"], host["id"]),
        (x["at"], host["at"]),
        (x["end"]["v"], host["end"]["v"]),
        (x[1:, ::2]["id"], host[1:, ::2]["id"]),
        (x[2, 4]["id"], host[2, 4]["id"]),
    ]:
        assert (view.shape, view.dtype) == (wanted.shape, wanted.dtype)
        assert_same_bits(view.to_host(), np.ascontiguousarray(wanted).reshape(wanted.shape))
    gpuvec.evaluate("x + y*f32(i)", x=x["at"][..., 0], y=2.0, i=x["id"], out=x["end"]["v"])
    x["id"][0] = -7
    x["at"] = 1.5
    host["end"]["v"] = np.float32(0.5) + np.float32(2) * np.arange(15).reshape(3, 5)
    host["id"][0], host["at"] = -7, 1.5
    assert x.to_host().tobytes() == host.tobytes()
    with pytest.raises(ValueError, match="no field of name speed"):
        x["speed"]
    for array, index in [(gpuvec.to_device(HOST), "id"), (x, ("id", 0)), (x, ["id", "at"])]:
        with pytest.raises(
            TypeError, match="an index of a DeviceArray is of type (str|list): pass integers"
        ):
            array[index]


@given(data=st.data())
@settings(max_examples=60)
def test_any_views_come_to_the_host(placement, data):
    """With gaps, backwards and transposed; also through other device memory."""
    shape = tuple(data.draw(st.lists(st.integers(1, 4), max_size=3)))
    lengths, view = data.draw(parts(shape, False))
    parent = np.arange(np.prod(lengths), dtype=np.int16).reshape(lengths)
    x = gpuvec.to_device(parent)
    there, wanted = view(x), view(parent)
    assert there.shape == wanted.shape
    assert_same_bits(there.to_host(), np.ascontiguousarray(wanted).reshape(shape))
    packed = gpuvec.to_device(there)
    assert packed.strides == np.empty(shape, np.int16).strides
    assert_same_bits(packed.to_host(), there.to_host())


def test_transposed_arrays(placement):
    """`T` and any order of axes; wrong ones are NumPy's errors."""
    host = HOST.reshape(2, 3, 4)
    x = gpuvec.to_device(host)
    for view, wanted in [
        (x.T, host.T),
        (x.transpose(), host.T),
        (x.transpose(1, 2, 0), host.transpose(1, 2, 0)),
        (x.transpose(-1, 0, 1)[1], host.transpose(-1, 0, 1)[1]),
    ]:
        assert (view.shape, view.strides) == (wanted.shape, wanted.strides)
        assert_same_bits(view.to_host(), np.ascontiguousarray(wanted))
    with pytest.raises(ValueError, match="axes"):
        x.transpose(0, 1)


def test_reshaped_arrays(placement):
    """Views alone: a shape that needs a copy is an error."""
    x = gpuvec.to_device(HOST)
    for shape in [(24,), (2, -1), (2, 3, 4), ((3, 8),), ((24, 1, 1),)]:
        view, wanted = x.reshape(*shape), HOST.reshape(*shape)
        assert (view.shape, view.address) == (wanted.shape, x.address)
        assert_same_bits(view.to_host(), wanted)
    half = x[:, ::2]
    assert_same_bits(half.reshape(2, 2, 3).to_host(), HOST[:, ::2].reshape(2, 2, 3))
    assert gpuvec.DeviceArray((0, 3)).T.reshape(3, 0, 7).shape == (3, 0, 7)
    for array, shape in [(x[:, :4], (16,)), (x.T, (24,)), (x.T, (-1,))]:
        with pytest.raises(
            ValueError,
            match="^an array with shape .* cannot be viewed with shape .*: reshape a copy",
        ):
            array.reshape(*shape)
    with pytest.raises(ValueError, match="cannot reshape array of size 24"):
        x.reshape(5, 5)


def test_views_keep_the_memory_alive(placement):
    """It is freed with the last of them."""
    x = gpuvec.to_device(HOST)
    address, view = x.address, x.T[1:, ::2]
    del x
    gc.collect()
    assert_same_bits(view.to_host(), np.ascontiguousarray(HOST.T[1:, ::2]))
    del view
    gc.collect()
    free = gpuvec.functions.gpuvec_device_free
    assert free(address) == gpuvec.Status.ERROR_POINTER


def test_views_wait_for_work_on_the_whole(placement):
    """And the whole for work on a view."""
    x = gpuvec.to_device(np.zeros(1 << 16, np.float32))
    one = gpuvec.to_device(np.ones(1 << 16, np.float32))
    stream = gpuvec.Stream()
    for _ in range(20):
        gpuvec.add(x, one, out=x, stream=stream)
    assert (x[::-1].to_host() == 20).all()
    half = x[1 << 15 :]
    for _ in range(20):
        gpuvec.add(half, one[: 1 << 15], out=half, stream=stream)
    assert x.to_host().sum() == 30 * (1 << 16)


def test_contiguous_views_are_arguments(placement):
    """Rows of a matrix, wherever its memory is."""
    x = gpuvec.to_device(HOST)
    assert_same_bits(gpuvec.add(x[1], x[2]).to_host(), HOST[1] + HOST[2])
    assert gpuvec.sum(x[1:3]) == HOST[1:3].sum()
    gpuvec.copy(x[0], HOST[3])
    gpuvec.scale(2, x[3], out=x[3])
    assert_same_bits(x.to_host()[[0, 3]], HOST[[3, 3]] * np.float32([[1], [2]]))
    assert_same_bits(gpuvec.evaluate("x + 1", x=x[1:3]).to_host(), HOST[1:3] + 1)


def test_strided_device_arrays(placement):
    """They are computed where they are, into new device arrays or into views."""
    x = gpuvec.to_device(HOST)
    total = gpuvec.add(x.T, x.T)
    assert isinstance(total, gpuvec.DeviceArray) and total.strides == HOST.T.strides
    assert_same_bits(total.to_host(), np.ascontiguousarray(HOST.T + HOST.T))
    assert_same_bits(gpuvec.sub(x, x[:, :1]).to_host(), HOST - HOST[:, :1])
    with gpuvec.Stream() as stream:
        gpuvec.evaluate("x*2 + k", x=x[::-1], k=0.5, out=total.T, stream=stream)
    assert_same_bits(total.T.to_host(), HOST[::-1] * 2 + np.float32(0.5))
    gpuvec.add(x[:, ::2], x[:, 1::2], out=x[:, ::2])
    assert_same_bits(np.ascontiguousarray(x.to_host()[:, ::2]), HOST[:, ::2] + HOST[:, 1::2])


def test_reductions_of_strided_device_arrays(on_cpu):
    """In host memory, where cores compute them."""
    x = gpuvec.to_device(HOST)
    if x.device is not None:
        pytest.skip("cores cannot access the memory of a GPU")
    sums = gpuvec.max(x[:, ::2], axis=1)
    assert isinstance(sums, gpuvec.DeviceArray)
    assert_same_bits(sums.to_host(), HOST[:, ::2].max(axis=1))
    assert gpuvec.max(x.T) == 23
    kept = gpuvec.evaluate("max(x)", x=x, keepdims=True)
    assert kept.shape == (1, 1) and kept.to_host() == 23


def test_arrays_in_other_orders_are_packed(placement):
    """Device memory has C order then, whatever the source."""
    for host in (
        HOST.T,
        np.asfortranarray(HOST),
        HOST[::-1, ::3],
        np.broadcast_to(HOST[0], (3, 6)),
    ):
        for source in (host, memoryview(host), gpuvec.from_dlpack(host.copy(order="K"))):
            x = gpuvec.to_device(source)
            assert x.strides == np.empty(host.shape, host.dtype).strides
            assert_same_bits(x.to_host(), np.ascontiguousarray(host))
    structures = np.zeros(5, "i4,f4")
    structures["f1"] = np.arange(5)
    assert_same_bits(gpuvec.to_device(structures["f1"]).to_host(), np.arange(5, dtype=np.float32))


def test_exports_have_strides(placement):
    """Views, for libraries that read DLPack or the CUDA array interface."""
    x = gpuvec.to_device(HOST)
    view = x.T[::2]
    again = gpuvec.from_dlpack(view)
    assert (again.shape, again.strides, again.address) == (view.shape, view.strides, view.address)
    assert_same_bits(again.to_host(), view.to_host())
    if x.device is None:
        theirs = np.from_dlpack(view)
        assert (theirs.strides, theirs.ctypes.data) == (view.strides, view.address)
        return
    interface = view.__cuda_array_interface__
    assert interface["strides"] == view.strides and interface["shape"] == view.shape
    assert interface["data"][0] == view.address
    assert x.__cuda_array_interface__["strides"] is None


def test_strides_of_other_libraries(on_cpu):
    """A strided array through DLPack is a device array of these strides."""
    shared = gpuvec.from_dlpack(HOST[:, ::2])
    assert shared.strides == HOST[:, ::2].strides and shared.address == HOST.ctypes.data
    assert_same_bits(shared.to_host(), np.ascontiguousarray(HOST[:, ::2]))
