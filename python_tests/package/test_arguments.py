"""Arguments that an operation cannot use raise errors that say what to pass; nothing is written."""

import array
import ctypes
import mmap

import gpuvec
import numpy as np
import pytest

N = 10


def floats(shape=N) -> np.ndarray:
    """A right argument."""
    return np.ones(shape, np.float32)


def read_only() -> np.ndarray:
    """An array as pandas gives for a column: a read-only view of other memory."""
    view = floats()[:]
    view.flags.writeable = False
    return view


def misaligned() -> np.ndarray:
    """Floats at an odd address."""
    return np.ones(4 * N + 1, np.uint8)[1:].view(np.float32)


def masked() -> np.ndarray:
    """A masked array."""
    return np.ma.masked_array(floats(), mask=[True] + [False] * (N - 1))


class WithArray:
    """An object that NumPy converts, as a column of pandas: no array of its own."""

    def __array__(self, *_, **__) -> np.ndarray:
        """Convert to an array."""
        return floats()

    def to_numpy(self) -> np.ndarray:
        """Convert to an array."""
        return floats()


class OnRocm:
    """An array on another vendor's device."""

    def __dlpack_device__(self) -> tuple:
        """Return DLPack's ROCm device."""
        return (10, 0)

    def __dlpack__(self, **_) -> object:
        """Export nothing."""
        raise AssertionError("an array of ROCm was asked for")


# Wrong in any position: what makes it, the exception, and what its text has.
WRONG = {
    "a list": (lambda: [1.0] * N, TypeError, "builtins.list: pass a NumPy array"),
    "a number": (lambda: 1.0, TypeError, "builtins.float"),
    "a string": (lambda: "ten floats", TypeError, "builtins.str"),
    "None's like": (lambda: object(), TypeError, "builtins.object"),
    "a column": (WithArray, TypeError, "WithArray"),
    "pointers": (lambda: (ctypes.c_void_p * N)(), TypeError, "c_void_p_Array_10: pass a NumPy"),
    "a masked array": (masked, TypeError, "masked array, and gpuvec does not apply masks"),
    "long doubles": (lambda: np.ones(N, np.longdouble), TypeError, "dtype float.*: pass float32"),
    "complex": (lambda: np.ones(N, np.complex64), TypeError, "dtype complex64: pass float32"),
    "objects": (lambda: np.ones(N, object), TypeError, "dtype object: pass float32"),
    "booleans": (lambda: np.ones(N, bool), TypeError, "dtype bool: pass float32"),
    "bytes with a dtype": (lambda: np.ones(4 * N, np.uint8), TypeError, "dtype uint8: pass float"),
    "structures": (lambda: np.ones(N, "f4,i4"), TypeError, "dtype .*: pass float32"),
    "other byte order": (
        lambda: floats().astype(">f4"),
        TypeError,
        "dtype >f4, of the other byte order: pass .*float32",
    ),
    "misaligned": (misaligned, gpuvec.ArgumentError, "{} is 0x.* not a multiple of 4"),
    "misaligned bytes": (
        lambda: memoryview(bytearray(4 * N + 1))[1:],
        gpuvec.ArgumentError,
        "{} is 0x.* not a multiple of 4",
    ),
    "no whole number": (lambda: bytearray(4 * N + 2), ValueError, "42 bytes, .* float32"),
    "on ROCm": (OnRocm, TypeError, "{} is on ROCm"),
}

# Right in itself, and unlike the other arguments.
UNEQUAL = {
    "other floats": (lambda: np.ones(N), TypeError, "dtype float64"),
    "integers": (lambda: np.ones(N, np.int32), TypeError, "dtype int32"),
    "too long": (lambda: floats(N + 1), ValueError, r"shape \(11,\)"),
    "too short": (lambda: floats(N - 1), ValueError, r"shape \(9,\)"),
    "another shape": (lambda: floats((2, 5)), ValueError, r"shape \(2, 5\)"),
    "none": (lambda: floats(0), ValueError, r"shape \(0,\)"),
    "too few bytes": (lambda: bytearray(4 * N - 4), ValueError, r"shape \(9,\)"),
    "in device memory": (lambda: gpuvec.to_device(np.ones(N)), TypeError, "dtype float64"),
}

# Wrong as an output only.
WRONG_OUTPUTS = {
    "a read-only column": (read_only, ValueError, "out is read-only: pass a writable array"),
    "bytes": (lambda: bytes(4 * N), ValueError, "out is read-only"),
    "a read-only memoryview": (
        lambda: memoryview(floats()).toreadonly(),
        ValueError,
        "out is read-only",
    ),
    "a broadcast array": (
        lambda: np.broadcast_to(np.float32(1), N),
        ValueError,
        "out is read-only",
    ),
    "a short out": (lambda: floats(N // 2), ValueError, r"out has shape \(5,\)"),
    "one element": (lambda: floats(1), ValueError, r"out has shape \(1,\)"),
    "a short array.array": (lambda: array.array("f", [1]), ValueError, r"out has shape \(1,\)"),
}


def contents(argument) -> bytes:
    """The bytes of an argument, to find what was written."""
    if isinstance(argument, gpuvec.DeviceArray):
        return argument.to_host().tobytes()
    try:
        return memoryview(argument).tobytes()
    except (TypeError, ValueError):
        return np.asarray(argument).tobytes() if isinstance(argument, np.ndarray) else b""


def refuse(call, error: type, text: str, *arguments) -> None:
    """Fails unless a call raises this error and changes none of the arguments."""
    before = [contents(argument) for argument in arguments]
    with pytest.raises(error, match=text):
        call(*arguments)
    assert [contents(argument) for argument in arguments] == before


def add(a, b, out) -> None:
    """Adds."""
    gpuvec.add(a, b, out=out)


def with_wrong(position: int, argument) -> list:
    """Arguments of an addition, one of them wrong."""
    arguments = [floats(), floats(), np.zeros(N, np.float32)]
    arguments[position] = argument
    return arguments


@pytest.mark.parametrize("position", [0, 1, 2], ids=["a", "b", "out"])
@pytest.mark.parametrize("wrong", WRONG)
def test_unusable_arguments(placement, wrong, position):
    """In any position, the error names the argument, what was found and what is wanted."""
    make, error, text = WRONG[wrong]
    name = ("a", "b", "out")[position]
    found = text.format(name) if "{}" in text else f"^{name} (is|has) .*{text}"
    refuse(add, error, found, *with_wrong(position, make()))


@pytest.mark.parametrize("position", [0, 1, 2], ids=["a", "b", "out"])
@pytest.mark.parametrize("unequal", UNEQUAL)
def test_unequal_arguments(placement, unequal, position):
    """Inputs that differ are both named; out is compared with them."""
    make, error, text = UNEQUAL[unequal]
    named = {0: f"^b has .* and a has .*{text[6:]}", 1: f"^b has {text} and a has", 2: "^out has"}
    refuse(add, error, named[position], *with_wrong(position, make()))


@pytest.mark.parametrize("wrong", WRONG_OUTPUTS)
def test_wrong_outputs(placement, wrong):
    """A read-only output is not written through, and a short one not past its end."""
    make, error, text = WRONG_OUTPUTS[wrong]
    refuse(add, error, f"^{text}", floats(), floats(), make())


def test_a_read_only_memmap_is_no_output(placement, tmp_path):
    """The file stays as it is, and the process lives."""
    path = tmp_path / "numbers"
    path.write_bytes(floats().tobytes())
    out = np.memmap(path, np.float32, "r")
    refuse(add, ValueError, "^out is read-only", floats(), floats(), out)
    gpuvec.add(out, out, out=np.memmap(path, np.float32, "r+"))
    assert (np.fromfile(path, np.float32) == 2).all()


def test_a_read_only_mmap_is_no_output(placement, tmp_path):
    """Mapped memory of bytes is read, and not written."""
    path = tmp_path / "numbers"
    path.write_bytes(floats().tobytes())
    with path.open("rb") as file:
        out = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        refuse(add, ValueError, "^out is read-only", floats(), floats(), out)
        assert gpuvec.sum(np.frombuffer(out, np.float32)) == N


def test_a_pandas_column_is_no_output(placement):
    """With copy-on-write a column's array is read-only: as an input it is taken."""
    pandas = pytest.importorskip("pandas")
    column = pandas.DataFrame({"x": np.ones(N, np.float32)})["x"]
    assert gpuvec.sum(column.to_numpy()) == N
    refuse(add, TypeError, "^out is a pandas", floats(), floats(), column)
    if not column.to_numpy().flags.writeable:
        refuse(add, ValueError, "^out is read-only", floats(), floats(), column.to_numpy())


@pytest.mark.parametrize("make", [lambda: bytes(40), lambda: bytearray(40)])
def test_bytes_alone_have_no_element_type(make):
    """One argument has to say what the bytes are."""
    refuse(
        lambda a, b: gpuvec.add(a, b),
        TypeError,
        "^a and b are bytes without a type: pass np.frombuffer",
        make(),
        make(),
    )


def test_bytearrays_keep_their_size_during_a_call(placement):
    """And can grow again afterwards, as nothing of the call is left."""
    a, out = bytearray(4 * N), bytearray(4 * N)
    gpuvec.add(a, floats(), out=out)
    a.append(0), out.append(0)


@pytest.mark.parametrize("wrong", [np.zeros(2), np.zeros(0), np.zeros(1, np.float32)])
@pytest.mark.parametrize("name", ["sum", "min", "max"])
def test_outputs_of_reductions(placement, name, wrong):
    """A reduction needs one element of its result's type."""
    refuse(
        lambda out: getattr(gpuvec, name)(np.ones(N), out=out),
        (TypeError, ValueError),
        "^out has (shape|dtype) .*: pass (an array of one element|float64)",
        wrong,
    )


def test_integers_are_summed_into_int64(placement):
    """An int32 has no room for a sum of them."""
    a = np.ones(N, np.int32)
    refuse(lambda out: gpuvec.sum(a, out=out), TypeError, "pass int64", np.zeros((), np.int32))


@pytest.mark.parametrize("name", ["div", "scale", "axpy"])
def test_operations_of_floats_alone(name):
    """Integers are refused where the table has none."""
    alpha = [] if name == "div" else [2.0]
    arrays = [np.ones(N, np.int32)] * (1 if name == "scale" else 2)
    with pytest.raises(TypeError, match="^a has dtype int32: pass float32, float64 or float16"):
        getattr(gpuvec, name)(*alpha, *arrays)


@pytest.mark.parametrize("alpha", [1j, "2", None, np.ones(3), [2.0]])
def test_factors_that_are_no_numbers(alpha):
    """A factor is one real number."""
    with pytest.raises(TypeError, match="^alpha is of type .*: pass a real number"):
        gpuvec.scale(alpha, floats())


@pytest.mark.parametrize("stream", [1, object(), "stream"])
def test_streams_of_another_kind(stream):
    """A stream is gpuvec's own."""
    with pytest.raises(TypeError, match="^stream is of type .*: pass a gpuvec.Stream"):
        gpuvec.add(floats(), floats(), stream=stream)


def test_no_elements_have_no_extreme(placement):
    """The library's own errors are ValueErrors too, with their status."""
    for function in (gpuvec.min, gpuvec.max):
        with pytest.raises(gpuvec.ArgumentError) as raised:
            function(np.empty(0))
        assert isinstance(raised.value, ValueError)
        assert raised.value.status is gpuvec.Status.ERROR_EMPTY


def test_an_overlap_is_an_error(placement):
    """An output that shares some elements with an input, not all."""
    memory = floats(N + 1)
    with pytest.raises(gpuvec.ArgumentError, match="out") as raised:
        gpuvec.add(memory[1:], memory[1:], out=memory[:-1])
    assert raised.value.status is gpuvec.Status.ERROR_OVERLAP
    assert (memory == 1).all()


def test_arrays_of_ctypes(placement):
    """Arrays of ctypes have an element type, and are inputs and outputs."""
    a, out = (ctypes.c_float * 3)(1, 2, 3), (ctypes.c_float * 3)()
    gpuvec.add(a, a, out=out)
    assert list(out) == [2, 4, 6]


def test_advice_keeps_the_result(placement):
    """The argument that an error suggests has the elements of the refused one."""
    ma = np.ma.masked_array(np.float64([1, 100, 3]), mask=[False, True, False])
    with pytest.raises(TypeError, match=r"a\.compressed\(\), or a\.filled\(value\)"):
        gpuvec.sum(ma)
    assert gpuvec.sum(ma.compressed()) == gpuvec.sum(ma.filled(0)) == ma.sum()
    for argument, advice in [
        (ma, "pass an array without a mask"),
        (np.zeros(3, ">f8"), "pass an array of float64"),
        (WithArray(), "WithArray: pass a NumPy array"),
    ]:
        with pytest.raises((TypeError, ValueError), match=advice):
            gpuvec.add(np.ones(3), np.ones(3), out=argument)
    columns = np.zeros((3, 2))[:, 0]
    with pytest.raises(ValueError, match="pass a C-contiguous array$"):
        gpuvec.copy(columns, np.ones(3))
    with pytest.raises(ValueError, match="pass a C-contiguous array$"), gpuvec.pinned(columns):
        pass
    with pytest.raises(ValueError, match="such as np.ascontiguousarray"):
        gpuvec.copy(np.ones(3), columns)


@pytest.mark.parametrize("shape", [(2, 3), (3, 1), (1, 1, 1), (0, 2)])
def test_dot_products_of_several_axes(placement, shape):
    """NumPy multiplies matrices there: nothing is flattened in silence."""
    a, out = np.ones(shape), np.zeros(())
    product = gpuvec.Accumulator("dot", np.float64)
    for call in (
        lambda: gpuvec.dot(a, a),
        lambda: gpuvec.dot(a, a, out=out),
        lambda: gpuvec.dot(gpuvec.to_device(a), gpuvec.to_device(a)),
        lambda: product.add(a, a),
        lambda: gpuvec.evaluate("dot(a, b)", a=a, b=a),
        lambda: gpuvec.evaluate("dot(a, b)", a=a, b=a, out=out),
    ):
        with pytest.raises(ValueError, match=r"^a has shape .*a\.ravel\(\).*np\.matmul"):
            call()
    flat = a.ravel()
    assert gpuvec.dot(flat, flat) == gpuvec.evaluate("dot(a, a)", a=flat) == np.dot(flat, flat)
    assert gpuvec.dot(np.array(3.0), np.array(4.0)) == np.dot(3.0, 4.0)
    assert gpuvec.sum(a) == np.sum(a)
    assert gpuvec.evaluate("norm(a)", a=a) == np.linalg.norm(a.ravel())


@pytest.mark.parametrize("make", [gpuvec.DeviceArray, gpuvec.pinned_empty])
@pytest.mark.parametrize(
    "shape",
    [np.ones(1000), np.array([2, 3]), np.array(3), [1.0, 2.0], "ab", None, bytes(3), 2.5, ("a",)],
    ids=str,
)
def test_elements_are_not_a_shape(make, shape):
    """An array, or a list of its elements, is not taken for a shape."""
    with pytest.raises(TypeError, match="^shape is of type .*: pass .*gpuvec.to_device"):
        make(shape)


@pytest.mark.parametrize("make", [gpuvec.DeviceArray, gpuvec.pinned_empty])
def test_shapes(placement, make):
    """Integers, tuples and lists of them; none negative."""
    for shape in (3, (3,), [3], np.int64(3), (np.int32(3),)):
        assert make(shape).shape == (3,)
    assert make(()).shape == () and make((2, 0)).shape == (2, 0)
    for shape in (-1, (2, -1)):
        with pytest.raises(
            ValueError, match="^shape is .*negative number: pass numbers of elements"
        ):
            make(shape)


MANY = np.ones((2, *[1] * 32), np.float32)


@pytest.mark.parametrize(
    "name, call",
    [
        ("a", lambda: gpuvec.add(MANY[:, ::-1], MANY[0])),
        ("b", lambda: gpuvec.add(np.ones(1, np.float32), MANY)),
        ("a", lambda: gpuvec.sum(np.ones((2, *[1] * 31, 2)), axis=0)),
        ("a", lambda: gpuvec.evaluate("a + 1", a=np.broadcast_to(MANY, (2, *[1] * 31, 3)))),
        ("out", lambda: gpuvec.add(*[np.ones(1, np.float32)] * 2, out=MANY.copy())),
        ("a", lambda: gpuvec.Accumulator("sum", np.float32, 2).add(MANY, axis=tuple(range(1, 33)))),
        ("shape", lambda: gpuvec.Accumulator("sum", np.float32, MANY.shape)),
    ],
)
def test_more_axes_than_the_library_has(name, call):
    """NumPy has 64: an error names the argument."""
    with pytest.raises(ValueError, match=f"^{name} has (33 axes: pass|shape)"):
        call()


def test_contiguous_arrays_of_any_number_of_axes(placement):
    """Are the library's arrays of one axis."""
    assert (gpuvec.add(MANY, MANY) == 2).all()
    assert gpuvec.evaluate("sum(a)", a=MANY) == 2


@pytest.mark.parametrize("keepdims", ["x", "", None, 1.0, [], np.ones(1)])
def test_keepdims_is_a_bool(keepdims):
    """Or a number, as for NumPy."""
    a = np.ones((2, 3), np.float32)
    for call in (
        lambda: gpuvec.sum(a, keepdims=keepdims),
        lambda: gpuvec.sum(a, axis=0, keepdims=keepdims),
        lambda: gpuvec.var(a, keepdims=keepdims),
        lambda: gpuvec.evaluate("max(a)", a=a, keepdims=keepdims),
    ):
        with pytest.raises(TypeError, match="^keepdims is .*: pass True or False"):
            call()
    for true, false in [(True, False), (np.True_, np.False_), (1, 0)]:
        assert gpuvec.sum(a, keepdims=true).shape == (1, 1)
        assert gpuvec.sum(a, keepdims=false) == 6
        assert gpuvec.evaluate("max(a)", a=a, axis=1, keepdims=true).shape == (2, 1)


@pytest.mark.parametrize("text", [["a"], ("a", ["a"]), {"a"}, 3])
def test_texts_that_are_not_texts(text):
    """An error says what they are."""
    for call in (
        lambda: gpuvec.evaluate(text, a=np.ones(1)),
        lambda: gpuvec.Expression(text, a="f4"),
    ):
        with pytest.raises(TypeError, match="^text is of type .*: pass a str, or a tuple of them"):
            call()


def test_more_inputs_than_a_formula_has():
    """An error names them."""
    inputs = {f"x{number}": np.ones(1, np.float32) for number in range(33)}
    with pytest.raises(ValueError, match="^the formula has 33 inputs, x0, x1, x2 and others: pass"):
        gpuvec.evaluate("+".join(inputs), inputs)
    del inputs["x32"]
    assert gpuvec.evaluate("+".join(inputs), inputs) == [32]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("length", [1, 3])
def test_a_dot_product_of_all_elements_broadcasts_nothing(placement, length, keepdims):
    with pytest.raises(ValueError, match=r"^b has shape .* and a has \(5,\)"):
        gpuvec.dot(np.ones(5), np.ones(length), keepdims=keepdims)
