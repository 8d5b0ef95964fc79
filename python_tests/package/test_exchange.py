"""Arrays of other libraries, through DLPack and __cuda_array_interface__, both ways."""

import ctypes
import gc
import sys
import types

import gpuvec
import numpy as np
import pytest
from c_exchange import library, new_capsule, read_only_ones
from gpuvec._dlpack import Managed, ManagedVersioned, Tensor, tensor_of
from on_fake_driver import needs_fake_driver, run

pytestmark = pytest.mark.wheel

CPU, CUDA = 1, 2


class Producer:
    """An array as another library exports it: through DLPack alone, of any version."""

    def __init__(self, array, is_old: bool = False):
        self.array, self.is_old = array, is_old
        self.streams = []

    def __dlpack_device__(self):
        """Return the array's device."""
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **newer):
        """Export the array; before DLPack 1.0 there were no other arguments."""
        if self.is_old and newer:
            raise TypeError("unexpected keyword argument")
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream, **newer)


@pytest.mark.parametrize("is_old", [False, True], ids=["1.0", "0.x"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_arrays_through_dlpack(placement, dtype, is_old):
    """Are inputs and outputs, of any shape, without a copy."""
    a, out = np.arange(6, dtype=dtype).reshape(2, 3), np.zeros((2, 3), dtype)
    taken = Producer(out, is_old)
    assert gpuvec.add(Producer(a, is_old), Producer(a, is_old), out=taken) is taken
    assert (out == a + a).all()
    assert gpuvec.sum(Producer(a, is_old)) == 15


def test_a_read_only_array_through_dlpack_is_an_input(placement):
    """DLPack 1.0 says that an array is read-only; before, such arrays were not exported."""
    array = read_only_ones()
    assert gpuvec.sum(Producer(array)) == 3
    with pytest.raises(ValueError, match="out is read-only"):
        gpuvec.add(np.ones(3), np.ones(3), out=Producer(array))
    assert (array == 1).all()


@pytest.mark.parametrize(
    "array, error, text",
    [
        (np.ones(3, np.uint8), TypeError, "a has dtype uint8: pass float32"),
        (np.ones(3, np.complex64), TypeError, "a has dtype complex64: pass float32"),
        (np.ones(3, bool), TypeError, "a has dtype bool: pass float32"),
    ],
    ids=str,
)
def test_unusable_arrays_through_dlpack(array, error, text):
    """The checks are those of ndarrays."""
    with pytest.raises(error, match=text):
        gpuvec.sum(Producer(array))


def test_the_exporter_s_refusal_is_told():
    """A tensor that needs a gradient, for example, is not exported, for a reason."""

    class Refusing(Producer):
        def __dlpack__(self, **_):
            raise BufferError("this tensor requires a gradient")

    with pytest.raises(BufferError, match="requires a gradient"):
        gpuvec.sum(Refusing(np.ones(3)))


def test_exports_live_as_long_as_their_last_user(placement):
    """The exporter's array is held until the DeviceArray on it is gone."""
    array = gpuvec.pinned_zeros(3)
    address = array.ctypes.data
    shared = gpuvec.from_dlpack(Producer(array))
    assert shared.address == address
    del array
    gc.collect()
    assert (gpuvec.add(shared, shared).to_host() == 0).all()
    del shared
    gc.collect()
    assert gpuvec.functions.pinned_free(address) == gpuvec.Status.ERROR_POINTER


def test_numpy_takes_device_arrays_in_host_memory(on_cpu):
    """Without a GPU np.from_dlpack gives the array itself, which lives on with it."""
    ours = gpuvec.to_device(np.arange(6.0).reshape(2, 3))
    address = ours.address
    theirs = np.from_dlpack(ours)
    assert theirs.ctypes.data == address and theirs.shape == (2, 3)
    gpuvec.scale(2, ours, out=ours)
    del ours
    gc.collect()
    assert (theirs == 2 * np.arange(6).reshape(2, 3)).all()
    del theirs
    gc.collect()
    assert gpuvec.functions.gpuvec_device_free(address) == gpuvec.Status.ERROR_POINTER


def test_device_arrays_say_where_they_are(placement):
    """DLPack's device, and a __cuda_array_interface__ only on a GPU."""
    array = gpuvec.DeviceArray(3)
    is_on_gpu = gpuvec.why_cpu() == ""
    assert array.__dlpack_device__() == ((CUDA, 0) if is_on_gpu else (CPU, 0))
    assert hasattr(array, "__cuda_array_interface__") == is_on_gpu
    if is_on_gpu:
        described = array.__cuda_array_interface__
        assert described["data"] == (array.address, False)
        assert (described["shape"], described["typestr"]) == ((3,), "<f4")
        with pytest.raises((BufferError, RuntimeError, TypeError)):
            np.from_dlpack(array)


@pytest.mark.parametrize("typestr", ["<f2", "<u8"])
def test_elements_described_by_their_typestr(placement, typestr):
    """Arrays with a __cuda_array_interface__ alone are inputs and outputs of expressions."""
    if gpuvec.why_cpu():
        pytest.skip("device arrays have the interface on a GPU alone")

    class Described:
        def __init__(self, array):
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    x, out = gpuvec.to_device(np.array([1, 2, 60000], typestr)), gpuvec.DeviceArray(3, typestr)
    assert x.__cuda_array_interface__["typestr"] == typestr
    gpuvec.evaluate("x - 1", x=Described(x), out=Described(out))
    assert (out.to_host() == np.array([0, 1, 60000 - 1], typestr)).all()
    assert gpuvec.add(Described(x), x).dtype == typestr


def test_exports_that_are_not_possible(placement):
    """A copy, another device, and types that DLPack does not have."""
    array = gpuvec.DeviceArray(3)
    with pytest.raises(BufferError, match="without a copy"):
        array.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="not on"):
        array.__dlpack__(dl_device=(CUDA, 7))
    with pytest.raises(BufferError):
        gpuvec.DeviceArray(3, "M8[s]").__dlpack__()
    with pytest.raises(TypeError, match="array is of type list"):
        gpuvec.from_dlpack([1, 2])


def interface(**changes) -> object:
    """Makes an object with a __cuda_array_interface__ of no elements, or another one."""
    entries = {"version": 3, "shape": (0,), "typestr": "<f8", "data": (0, False), **changes}

    class Described:
        __cuda_array_interface__ = {k: v for k, v in entries.items() if v is not MISSING}

    return Described()


# Removes an entry from an interface.
MISSING = "missing"


def test_masks_are_not_ignored():
    """An array with a mask in its __cuda_array_interface__ is refused."""
    with pytest.raises(TypeError, match="a has a mask"):
        gpuvec.sum(interface(mask=object()))


def test_no_elements_have_no_address(placement):
    """Other libraries describe an empty array by NULL."""
    for shape, typestr, stream in [((0,), "<f8", None), ([0], "<f8", 1), ((3, 0), "<f8", 1)]:
        empty = interface(shape=shape, typestr=typestr, stream=stream)
        assert gpuvec.sum(empty) == 0
        assert gpuvec.add(empty, empty).shape == tuple(shape)
        gpuvec.add(np.empty(shape), np.empty(shape), out=empty)
    none = HandMade(0, (0,), (2, 64))
    assert gpuvec.sum(none) == 0
    assert gpuvec.add(none, none, out=HandMade(0, (0,), (2, 64))).array == 0


@pytest.mark.parametrize(
    "changes, error, words",
    [
        ({"shape": (3,)}, ValueError, r"NULL data and shape \(3,\)"),
        ({"shape": ()}, ValueError, r"NULL data and shape \(\)"),
        ({"shape": (-3,)}, TypeError, r"shape \(-3,\)"),
        ({"shape": (2.0,)}, TypeError, r"shape \(2.0,\)"),
        ({"shape": 3}, TypeError, "shape 3"),
        ({"shape": None}, TypeError, "shape None"),
        ({"shape": (0, 2**70)}, ValueError, "shape"),
        ({"shape": (0,) * 100}, ValueError, "shape"),
        ({"typestr": 4}, TypeError, "typestr 4"),
        ({"typestr": "<q9"}, TypeError, "typestr '<q9'"),
        ({"typestr": "|O"}, TypeError, r"typestr '\|O'"),
        ({"typestr": b"<f8"}, TypeError, "typestr b'<f8'"),
        ({"data": None}, TypeError, "data None"),
        ({"data": 4096}, TypeError, "data 4096"),
        ({"data": (4096,)}, TypeError, r"data \(4096,\)"),
        ({"data": (None, False)}, TypeError, r"data \(None, False\)"),
        ({"data": (-8, False)}, TypeError, r"data \(-8, False\)"),
        ({"data": (2**64, False)}, TypeError, "data"),
        ({"strides": (8, 8)}, TypeError, r"strides \(8, 8\)"),
        ({"strides": 8}, TypeError, "strides 8"),
        ({"strides": (0.5,)}, TypeError, r"strides \(0.5,\)"),
        ({"stream": 0}, ValueError, "stream 0, which the protocol forbids"),
        ({"stream": -1}, ValueError, "stream -1"),
        ({"stream": "1"}, TypeError, "stream '1'"),
        *(
            ({entry: MISSING}, TypeError, f"without '{entry}'")
            for entry in ("version", "shape", "typestr", "data")
        ),
    ],
    ids=str,
)
def test_wrong_cuda_array_interfaces(placement, changes, error, words):
    """Every entry is checked; the error names the argument, as input and as output."""
    with pytest.raises(error, match=f"^a has .*{words}"):
        gpuvec.sum(interface(**changes))
    with pytest.raises(error, match=f"^out has .*{words}"):
        gpuvec.add(np.ones(3), np.ones(3), out=interface(**changes))


def test_a_cuda_array_interface_is_a_dict():
    """Anything else is refused."""

    class Wrong:
        __cuda_array_interface__ = 5

    with pytest.raises(TypeError, match="^a has a __cuda_array_interface__ that is 5"):
        gpuvec.sum(Wrong())


# The element types of DLPack: code, bits.
DLPACK_TYPES = {
    "bool": (6, 8),
    "uint8": (1, 8),
    "int8": (0, 8),
    "uint16": (1, 16),
    "int16": (0, 16),
    "uint32": (1, 32),
    "int32": (0, 32),
    "uint64": (1, 64),
    "int64": (0, 64),
    "float16": (2, 16),
    "float32": (2, 32),
    "float64": (2, 64),
}
BFLOAT16 = (4, 16)


class HandMade:
    """A tensor in host memory as DLPack lays it out, made without NumPy."""

    def __init__(self, array, shape, kind, is_new=True, lanes=1, flags=0):
        self.array = array
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        address = array.ctypes.data if isinstance(array, np.ndarray) else array
        tensor = Tensor(address, CPU, 0, len(shape), *kind, lanes, self.shape, None, 0)
        self.is_new = is_new
        self.memory = ManagedVersioned(1, 0, None, None, flags, tensor)
        if not is_new:
            self.memory = Managed(tensor, None, None)

    def __dlpack_device__(self):
        """Return the device."""
        return (CPU, 0)

    def __dlpack__(self, *, stream=None, max_version=None):
        """Export the tensor."""
        if max_version and not self.is_new:
            raise TypeError("unexpected keyword argument 'max_version'")
        name = b"dltensor_versioned" if self.is_new else b"dltensor"
        return new_capsule(ctypes.addressof(self.memory), name, None)


@pytest.mark.parametrize("is_new", [True, False], ids=["1.0", "0.x"])
@pytest.mark.parametrize("name", DLPACK_TYPES)
def test_every_type_through_dlpack(placement, name, is_new):
    """Inputs of expressions have all types, and outputs those of results."""
    values = np.array([0, 1, 1, 0, 1], name)
    theirs = HandMade(values, (5,), DLPACK_TYPES[name], is_new)
    right = gpuvec.evaluate("where(x == 1, x, x)", x=values)
    out = np.zeros_like(right)
    taken = HandMade(out, (5,), DLPACK_TYPES[out.dtype.name], is_new)
    assert gpuvec.evaluate("where(x == 1, x, x)", x=theirs, out=taken) is taken
    assert (out == values).all()
    assert gpuvec.evaluate("count(x != 0)", x=Producer(values, not is_new)) == 3


def test_masks_through_dlpack(placement):
    """Booleans of other libraries select elements, and take the results of comparisons."""
    mask, out = np.array([True, False, True]), np.zeros(3, bool)
    theirs = HandMade(mask, (3,), DLPACK_TYPES["bool"])
    a, b = np.float32([1, 2, 3]), np.float32([10, 20, 30])
    assert (gpuvec.evaluate("where(m, a, b)", m=theirs, a=a, b=b) == [1, 20, 3]).all()
    gpuvec.evaluate("a > 1", a=a, out=HandMade(out, (3,), DLPACK_TYPES["bool"]))
    assert (out == [False, True, True]).all()


@pytest.mark.parametrize(
    "kind, lanes", [((2, 8), 1), ((0, 4), 1), ((6, 1), 1), ((2, 32), 4), ((99, 8), 1)]
)
def test_types_of_dlpack_alone(kind, lanes):
    """Types that NumPy does not have are refused by the argument's name."""
    with pytest.raises(TypeError, match=f"^a has a DLPack type .*code {kind[0]}, {kind[1]} bits"):
        gpuvec.sum(HandMade(np.ones(3), (3,), kind, lanes=lanes))


def test_bfloat16_of_dlpack_without_its_package(monkeypatch):
    """NumPy lacks the type."""
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match="^x has type bfloat16, .* ml_dtypes: install it"):
        gpuvec.evaluate("x", x=HandMade(np.ones(3, np.uint16), (3,), BFLOAT16))


@pytest.mark.parametrize("is_new", [True, False], ids=["1.0", "0.x"])
def test_bfloat16_through_dlpack(placement, is_new):
    """Tensors of the type as PyTorch has them are inputs, outputs and exports."""
    pytest.importorskip("ml_dtypes")
    # 1, -2 and the least normal number.
    x, out = np.uint16([0x3F80, 0xC000, 0x0080]), np.zeros(3, np.uint16)
    theirs, taken = (HandMade(bits, (3,), BFLOAT16, is_new) for bits in (x, out))
    assert gpuvec.evaluate("x * 2", x=theirs, out=taken) is taken
    assert out.tolist() == [0x4000, 0xC080, 0x0100]
    assert gpuvec.sum(theirs) == -1
    capsule = gpuvec.to_device(gpuvec.evaluate("x", x=theirs)).__dlpack__()
    exported, _ = tensor_of(capsule)
    assert (exported.code, exported.bits, exported.lanes) == (*BFLOAT16, 1)


@pytest.mark.parametrize("is_new", [True, False], ids=["1.0", "0.x"])
def test_null_through_dlpack(placement, is_new):
    """Elements at NULL are an error that names the argument; the process lives."""
    null = HandMade(0, (3,), (2, 64), is_new)
    for name, call in {
        "a": lambda: gpuvec.sum(null),
        "out": lambda: gpuvec.add(np.ones(3), np.ones(3), out=null),
        "src": lambda: gpuvec.copy(np.ones(3), null),
        "array": lambda: gpuvec.from_dlpack(null),
        "x": lambda: gpuvec.evaluate("x + 1", x=null),
    }.items():
        with pytest.raises(ValueError, match=rf"^{name} has NULL data and shape \(3,\)"):
            call()


# Layouts that a tensor of three elements cannot have, by the fields that are changed.
WRONG_LAYOUTS = {
    "axes below none": ({"ndim": -1}, "-1 axes: pass an array of 0 to "),
    "too many axes": ({"ndim": 2**31 - 1}, "2147483647 axes: pass an array of 0 to "),
    "no lengths": ({"shape": None}, "a NULL shape and 1 axes"),
    "a length below 0": ({"shape": [-3]}, r"shape \(-3,\)"),
    "a stride of 2**63 - 1": ({"strides": [2**63 - 1]}, "strides"),
    "a stride whose bytes wrap to 0": ({"strides": [2**62]}, "strides"),
    "the least stride": ({"strides": [-(2**63)]}, "strides"),
    "an offset beyond memory": ({"byte_offset": 2**64 - 4}, "address|which are not those"),
    "another device": ({"device_type": 10}, "is on ROCm"),
}


@pytest.mark.parametrize("is_new", [True, False], ids=["1.0", "0.x"])
@pytest.mark.parametrize("layout", WRONG_LAYOUTS)
def test_layouts_that_no_tensor_has(placement, layout, is_new):
    """Are refused by the argument's name; nothing is read or written before the elements."""
    changes, words = WRONG_LAYOUTS[layout]
    memory = np.full(9, 7, np.float32)
    theirs = HandMade(memory[3:6], (3,), (2, 32), is_new)
    tensor = theirs.memory.tensor
    for field, value in changes.items():
        if isinstance(value, list):
            value = theirs.kept = (ctypes.c_int64 * 1)(*value)
        setattr(tensor, field, value)
    ones = np.ones(3, np.float32)
    for name, call in {
        "a": lambda: gpuvec.add(theirs, ones),
        "b": lambda: gpuvec.add(ones, theirs, ones),
        "out": lambda: gpuvec.add(ones, ones, out=theirs),
        "x": lambda: gpuvec.evaluate("sum(x)", x=theirs),
        "array": lambda: gpuvec.from_dlpack(theirs),
    }.items():
        with pytest.raises((TypeError, ValueError), match=f"^{name} .*({words})"):
            call()
    assert (memory == 7).all()


def test_strides_beyond_memory(placement):
    """Of bytes, whose strides do not overflow, but their places."""
    array = np.ones(3, np.uint8)
    theirs = HandMade(array, (3,), (1, 8))
    theirs.kept = (ctypes.c_int64 * 1)(2**63 - 1)
    theirs.memory.tensor.strides = theirs.kept
    with pytest.raises(ValueError):
        gpuvec.evaluate("sum(x)", x=theirs)


@pytest.mark.parametrize("flags", [1, 2], ids=["read-only", "a copy"])
def test_flags_of_dlpack(placement, flags):
    """Neither a read-only tensor nor a copy is an output; both are inputs."""
    array = np.ones(3)
    theirs = HandMade(array, (3,), (2, 64), flags=flags)
    assert gpuvec.sum(theirs) == 3
    with pytest.raises(ValueError, match="^out is read-only"):
        gpuvec.add(array, array, out=theirs)
    assert (array == 1).all()


def kinds_of_exports(array, **attributes):
    """Makes arrays of other libraries' classes, exported by ``__dlpack__`` and by C functions."""
    for make in (Producer, library()):
        theirs = type("Theirs", (make,), attributes)(array)
        yield theirs


@pytest.mark.parametrize("bit", ["neg", "conj"])
def test_bits_of_pytorch(placement, bit, monkeypatch):
    """Tensors whose elements are not those in memory are refused, though PyTorch exports them."""
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    array = np.ones(3, np.float32 if bit == "neg" else np.complex64)
    for theirs in kinds_of_exports(array, **{f"is_{bit}": lambda _: True}):
        calls = {
            "src": lambda theirs=theirs: gpuvec.copy(np.zeros_like(array), theirs),
            "array": lambda theirs=theirs: gpuvec.from_dlpack(theirs),
        }
        if bit == "neg":
            calls |= {
                "a": lambda theirs=theirs: gpuvec.sum(theirs),
                "x": lambda theirs=theirs: gpuvec.evaluate("x", x=theirs),
                "out": lambda theirs=theirs: gpuvec.add(array, array, out=theirs),
            }
        for name, call in calls.items():
            with pytest.raises(ValueError, match=f"^{name} has PyTorch's .*resolve_{bit}"):
                call()
    for theirs in kinds_of_exports(np.ones(3), is_neg=lambda _: False, is_conj=lambda _: False):
        assert gpuvec.sum(theirs) == 3


def test_bits_of_pytorch_itself(placement):
    """The imaginary part of conjugated numbers has the negative bit."""
    torch = pytest.importorskip("torch")
    c = torch.complex(torch.ones(3), torch.arange(3.0))
    with pytest.raises(ValueError, match="^a has PyTorch's negative bit"):
        gpuvec.sum(torch.imag(c.conj()))
    with pytest.raises(ValueError, match="^array has PyTorch's conjugate bit"):
        gpuvec.to_device(c.conj())
    assert gpuvec.sum(torch.imag(c.conj()).resolve_neg()) == -3
    assert gpuvec.sum(torch.imag(c)) == 3


def check_is_immutable(theirs, values) -> None:
    """Checks that an array is an input and no output."""
    ones, shared = np.ones(3, np.float32), gpuvec.from_dlpack(theirs)
    assert gpuvec.sum(theirs) == values.sum()
    for name, call in {
        "out": lambda: gpuvec.add(ones, ones, out=theirs),
        r"out\[1\]": lambda: gpuvec.evaluate("a; a", a=ones, out=(None, theirs)),
        "dst": lambda: gpuvec.copy(theirs, ones),
    }.items():
        with pytest.raises(ValueError, match=f"^{name} is read-only: pass a writable array"):
            call()
    with pytest.raises(ValueError, match="is read-only"):
        gpuvec.add(ones, ones, out=shared)
    with pytest.raises(ValueError, match="is read-only"):
        shared += 1


def test_immutable_arrays(placement, monkeypatch):
    """Arrays of JAX, which exports them as others, are inputs and no outputs."""
    array = np.float32([1, 2, 3])
    for theirs in kinds_of_exports(array):
        jax = types.ModuleType("jax")
        jax.Array = type(theirs)
        monkeypatch.setitem(sys.modules, "jax", jax)
        check_is_immutable(theirs, array)
    assert array.tolist() == [1, 2, 3]


def test_immutable_arrays_of_jax_itself(placement):
    """Other names of the same array keep its elements."""
    jax = pytest.importorskip("jax")
    theirs = jax.device_put(np.float32([1, 2, 3]), jax.devices("cpu")[0])
    check_is_immutable(theirs, np.float32([1, 2, 3]))
    assert theirs.tolist() == [1, 2, 3]


@pytest.mark.parametrize("library", ["torch", "cupy"])
@pytest.mark.parametrize("name", DLPACK_TYPES)
def test_every_type_of_other_libraries(placement, library, name):
    """Arrays of PyTorch and CuPy are inputs and outputs of all types that these libraries have."""
    module = pytest.importorskip(library)
    if library == "cupy" and (gpuvec.device_count() == 0 or gpuvec.why_cpu()):
        pytest.skip("there is no GPU")
    if not hasattr(module, name):
        pytest.skip(f"this {library} does not have {name}")
    dtype = getattr(module, name)
    on = [{}] if library == "cupy" else [{"device": "cpu"}]
    if library == "torch" and module.cuda.is_available() and not gpuvec.why_cpu():
        on.append({"device": "cuda"})
    for place in on:
        x = module.asarray([0, 1, 1, 0, 1], dtype=dtype, **place)
        result = gpuvec.Expression("where(x == 1, x, x)", x=name).dtype.name
        out = module.zeros(5, dtype=getattr(module, result), **place)
        mask = module.zeros(5, dtype=module.bool if library == "torch" else bool, **place)
        assert gpuvec.evaluate("count(x != 0)", x=x) == 3
        assert gpuvec.evaluate("where(x == 1, x, x)", x=x, out=out) is out
        # PyTorch compares few pairs of types.
        assert out.tolist() == x.tolist() == [0, 1, 1, 0, 1]
        gpuvec.evaluate("x != 0", x=x, out=mask)
        assert mask.tolist() == [False, True, True, False, True]
        assert gpuvec.evaluate("sum(where(m, 2.0, 1.0))", m=mask) == 8


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_pytorch(placement, device):
    """Tensors are arguments, and take DeviceArrays."""
    torch = pytest.importorskip("torch")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("PyTorch has no GPU")
    a = torch.arange(10, dtype=torch.float32, device=device)
    out = torch.zeros_like(a)
    a += 1
    if device == "cuda" and gpuvec.why_cpu():
        with pytest.raises(gpuvec.UnavailableError, match="a is device memory"):
            gpuvec.add(a, a, out=out)
        return
    gpuvec.add(a, a, out=out)
    assert (out.cpu() == 2 * torch.arange(1, 11)).all()
    with pytest.raises((BufferError, RuntimeError), match="grad"):
        gpuvec.sum(torch.ones(3, requires_grad=True, device=device))
    ours = gpuvec.to_device(np.ones(10, np.float32))
    if ours.__dlpack_device__()[0] == CPU or torch.cuda.is_available():
        theirs = torch.from_dlpack(ours)
        theirs += 1
        assert (ours.to_host() == 2).all()


def test_cupy(placement):
    """CuPy's arrays are arguments, and take DeviceArrays."""
    cupy = pytest.importorskip("cupy")
    if gpuvec.device_count() == 0 or gpuvec.why_cpu():
        pytest.skip("there is no GPU")
    a = cupy.arange(10, dtype=cupy.float32)
    a += 1
    result = gpuvec.add(a, a)
    assert isinstance(result, gpuvec.DeviceArray)
    assert (cupy.asnumpy(cupy.asarray(result)) == 2 * np.arange(1, 11)).all()
    assert (cupy.asnumpy(cupy.from_dlpack(result)) == 2 * np.arange(1, 11)).all()


# Objects in the fake driver's device memory, as other libraries describe theirs.
OTHERS = """
import gc
import gpuvec

class Interface:
    "An array with a __cuda_array_interface__ alone."

    def __init__(self, array, **changes):
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **changes}
        self.array = array

class Producer:
    "An array with DLPack alone, before version 1.0; it notes the streams that are asked for."

    def __init__(self, array):
        self.array, self.streams = array, []

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream)

values = np.arange(10, dtype=np.float32)
gpuvec.set_placement("gpu")
"""


def run_with_others(script: str, **settings) -> None:
    """Runs a script on the fake driver."""
    run(OTHERS + script, **settings)


@needs_fake_driver
def test_device_memory_of_other_libraries():
    """It is used in place, and results go to new device memory."""
    run_with_others("""
for kind in (Interface, Producer):
    theirs, out = kind(gpuvec.to_device(values)), kind(gpuvec.DeviceArray(10))
    result = gpuvec.add(theirs, values)
    assert isinstance(result, gpuvec.DeviceArray) and result.device == 0
    assert (result.to_host() == 2 * values).all()
    gpuvec.add(theirs, theirs, out=out)
    assert gpuvec.last_run().path == ("resident",)
    assert (out.array.to_host() == 2 * values).all()
    assert gpuvec.sum(theirs) == values.sum()
    try:
        gpuvec.add(values, values, out=Interface(out.array, data=(out.array.address, True)))
    except ValueError as error:
        assert "out is read-only" in str(error)
    else:
        raise AssertionError("a read-only array was written")
""")


@needs_fake_driver
def test_work_that_other_libraries_queued_comes_first():
    """DLPack's producers are told the stream; that of a __cuda_array_interface__ is waited for."""
    run_with_others(
        """
producer = Producer(gpuvec.to_device(values))
gpuvec.sum(producer)
gpuvec.add(producer, producer, stream=gpuvec.Stream())
assert set(producer.streams) == {1}, producer.streams

native = c_void_p()
fake_driver.hold_context()
fake_driver.driver.cuStreamCreateWithPriority(byref(native), 1, 0)
producer.streams.clear()
gpuvec.add(producer, producer, stream=gpuvec.Stream.from_native(native.value))
assert set(producer.streams) == {native.value}, producer.streams

theirs = gpuvec.Stream.from_native(native.value)
array, ones = gpuvec.to_device(values), gpuvec.to_device(np.ones(10, np.float32))
for stream in (None, gpuvec.Stream()):
    for _ in range(20):
        gpuvec.add(array, ones, out=array, stream=theirs)
        array._uses.clear()
    result = gpuvec.add(Interface(array, stream=native.value), ones, stream=stream)
    values += 20
    assert (result.to_host() == values + 1).all()
""",
        DELAY=200,
    )


@needs_fake_driver
def test_exports_wait_for_queued_work():
    """Importers of a DeviceArray see the work that is queued on gpuvec's streams."""
    run_with_others(
        """
stream = gpuvec.Stream()
for export in (
    lambda array: array.__cuda_array_interface__,
    lambda array: array.__dlpack__(),
    lambda array: array.__dlpack__(stream=2),
    lambda array: array.to_host(),
    lambda array: gpuvec.sum(array),
    lambda array: gpuvec.copy(np.empty(10, np.float32), array),
):
    array = gpuvec.to_device(values)
    gpuvec.add(array, array, out=array, stream=stream)
    export(array)
    assert stream.is_done()
    assert (array.to_host() == 2 * values).all()
""",
        DELAY=200,
    )


@needs_fake_driver
def test_capsules_of_device_memory():
    """A capsule holds the memory until it is gone, consumed or not."""
    run_with_others("""
array = gpuvec.to_device(values)
before = fake_driver.count("device_allocations")
shared = gpuvec.from_dlpack(array)
assert repr(shared) == repr(array) and shared.address == array.address
capsule = array.__dlpack__(max_version=(1, 0))
del array
gc.collect()
assert (shared.to_host() == values).all()
del shared, capsule
gc.collect()
assert fake_driver.count("device_allocations") == before - 1
""")
