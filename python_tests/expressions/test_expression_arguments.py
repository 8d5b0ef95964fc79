"""Wrong arguments of the functions of expressions: a status each, and nothing is written."""

import ctypes
from ctypes import c_char_p, c_int32, c_size_t, c_void_p

import numpy as np
import pytest
from bindings import Status, last_error, lib
from formulas import FORMS, NUMBER, SCALAR, TYPES, Compiled, compile_into

F32 = TYPES["GPUVEC_F32"]


def refused(text: bytes | None, inputs: dict, status: Status, words: str) -> None:
    """Fails unless a text is refused with a status, words that explain it, and a NULL handle."""
    handle = c_void_p(1)
    assert compile_into(text, inputs, handle) == status
    assert handle.value is None
    assert words in last_error(), last_error()


@pytest.mark.parametrize(
    "text, words",
    [
        (b"a + c", "no array is named 'c'\na + c\n    ^"),
        (b"a +", "\na +\n   ^"),
        (b"", "empty"),
        (b"a @ a", "write dot(a, b)"),
        (b"a\xff", "text is not valid UTF-8 at byte 1: pass UTF-8"),
        (b"a " + b"+ a" * 30_000, "at most 65536"),
        (b"(" * 201 + b"a" + b")" * 201, "200"),
        (b"+".join(b"a*%d.5" % i for i in range(4000)), "more than 4096 operations"),
    ],
    ids=lambda value: value[:12] if isinstance(value, bytes) else "",
)
def test_wrong_texts(text, words):
    """The text of the error shows the place."""
    refused(text, {"a": "f4"}, Status.ERROR_EXPRESSION, words)


@pytest.mark.parametrize(
    "inputs, status, words",
    [
        ({"a b": "f4"}, Status.ERROR_EXPRESSION, "'a b' is not a name: use only ASCII letters"),
        ({"if": "f4"}, Status.ERROR_EXPRESSION, "'if' is a word of the language"),
        ({"a" * 256: "f4"}, Status.ERROR_EXPRESSION, "longer than 255 bytes"),
        ({"a": F32 | NUMBER}, Status.ERROR_EXPRESSION, "is a number of type f32"),
        ({"a": 0}, Status.ERROR_VALUE, "an element of types is 0: pass a gpuvec_type"),
        ({"a": 14}, Status.ERROR_VALUE, "is 14"),
        ({"a": -1}, Status.ERROR_VALUE, "is -1"),
        ({"a": F32 | SCALAR | NUMBER}, Status.ERROR_VALUE, f"is {F32 + 768}"),
        ({f"a{i}": "f4" for i in range(33)}, Status.ERROR_VALUE, "count is 33: pass at most 32"),
    ],
)
def test_wrong_inputs(inputs, status, words):
    """Names, types and their number."""
    refused(b"a + 1", inputs, status, words)


def test_null_arguments_of_compile():
    """NULL for each pointer."""
    handle = c_void_p(1)
    place = ctypes.addressof(handle)
    names, types = (c_char_p * 1)(b"a"), (c_int32 * 1)(F32)
    at_names, at_types = ctypes.addressof(names), ctypes.addressof(types)
    for text, names_at, types_at, words in [
        (None, at_names, at_types, "text is NULL: pass a C string"),
        (b"a", None, at_types, "names is NULL, but its length is 1"),
        (b"a", at_names, None, "types is NULL, but its length is 1"),
    ]:
        status = lib.gpuvec_expr_compile(text, names_at, types_at, 1, place)
        assert (status, handle.value) == (Status.ERROR_NULL, None)
        assert words in last_error()
        handle.value = 1
    names[0] = None
    assert lib.gpuvec_expr_compile(b"a", at_names, at_types, 1, place) == Status.ERROR_NULL
    assert "names is NULL: pass a C string" in last_error()
    assert lib.gpuvec_expr_compile(b"a", None, None, 0, None) == Status.ERROR_NULL
    assert "expr is NULL: pass the address for the result" in last_error()
    assert lib.gpuvec_expr_compile(b"1 + 2", None, None, 0, place) == Status.OK
    assert lib.gpuvec_expr_destroy(handle.value) == Status.OK


def test_wrong_arguments_of_run(placement):
    """Every error names its argument, and the output stays as it was."""
    a = np.arange(100, dtype=np.float32)
    k = np.array([2.0], np.float32)
    out = np.full(100, 7, np.float32)
    at, at_k, to = a.ctypes.data, k.ctypes.data, out.ctypes.data
    with Compiled("a * k", {"a": "f4", "k": F32 | SCALAR}) as compiled:
        for inputs, place, n, status, words in [
            ([None, at_k], to, 100, Status.ERROR_NULL, "inputs[0] is NULL, but its length is 100"),
            ([at, None], to, 100, Status.ERROR_NULL, "inputs[1] is NULL, and it is a scalar"),
            ([at, at_k], None, 100, Status.ERROR_NULL, "out is NULL"),
            ([], to, 100, Status.ERROR_NULL, "inputs is NULL, but its length is 2"),
            ([at + 1, at_k], to, 100, Status.ERROR_MISALIGNED, "inputs[0] is 0x"),
            ([at, at_k], to + 2, 99, Status.ERROR_MISALIGNED, "out is 0x"),
            ([at, at_k], at + 4, 99, Status.ERROR_OVERLAP, "out partly overlaps inputs[0]"),
            ([at, at_k], to, 2**62, Status.ERROR_SIZE, "n is 4611686018427387904"),
        ]:
            assert compiled.run(inputs, place, n) == status, words
            assert words in last_error(), last_error()
        assert (out == 7).all()
        assert compiled.run([None, None], None, 0) == Status.OK
        assert compiled.run([at, at_k], to, 100, 12345) == Status.ERROR_HANDLE


@pytest.mark.parametrize("text", ["a + k", "i32(k) - a", "where(a > k, k, a)"])
def test_a_number_that_is_no_i32_beside_an_i32(placement, text):
    """It does not wrap: the call is refused, and the output stays as it was."""
    a, out = np.arange(100, dtype=np.int32), np.full(100, 7, np.int32)
    with Compiled(text, {"a": "i4", "k": TYPES["GPUVEC_I64"] | NUMBER}) as compiled:
        for value, is_right in [
            (2**31 - 1, True),
            (2**31, False),
            (-(2**31), True),
            (-(2**63), False),
        ]:
            out[:] = 7
            k = np.array([value])
            status = compiled.run([a.ctypes.data, k.ctypes.data], out.ctypes.data, 100)
            assert status == (Status.OK if is_right else Status.ERROR_VALUE)
            if not is_right:
                assert f"inputs[1] is {value}: the other operand is an i32" in last_error()
                assert (out == 7).all()


def test_a_number_beside_other_types_may_be_any(placement):
    """An i64 takes all integers, and a float rounds them."""
    k, out = np.array([2**62 + 1]), np.empty(3, np.int64)
    with Compiled("i64(a) + k", {"a": "i4", "k": TYPES["GPUVEC_I64"] | NUMBER}) as compiled:
        a = np.arange(3, dtype=np.int32)
        assert compiled.run([a.ctypes.data, k.ctypes.data], out.ctypes.data, 3) == Status.OK
    assert (out == 2**62 + 1 + np.arange(3)).all()


def test_an_output_of_another_width_may_not_be_an_input(placement):
    """In place needs elements of one size."""
    x = np.arange(64, dtype=np.float64)
    with Compiled("x > 3", {"x": "f8"}) as compiled:
        assert compiled.run([x.ctypes.data], x.ctypes.data, 64) == Status.ERROR_OVERLAP
    assert (x == np.arange(64)).all()


def test_an_array_that_the_text_does_not_use_may_be_anything(placement):
    """It is neither read nor checked."""
    n = 10_000
    a, out = np.arange(n, dtype=np.float32), np.empty(n, np.float32)
    with Compiled("a + 1", {"b": "f8", "a": "f4", "s": F32 | SCALAR}) as compiled:
        for b in (None, 3, a.ctypes.data):
            assert compiled.run([b, a.ctypes.data, b], out.ctypes.data, n) == Status.OK
            assert (out == a + 1).all()


def test_handles():
    """A destroyed handle, and one of another kind, are refused; NULL is destroyed."""
    with Compiled("1 + 2", {}) as compiled:
        handle = compiled.handle
    stream = lib.gpuvec_stream_create(0)
    size = c_size_t()
    for wrong, status in [
        (handle, Status.ERROR_HANDLE),
        (stream, Status.ERROR_HANDLE),
        (12345, Status.ERROR_HANDLE),
        (None, Status.ERROR_NULL),
    ]:
        assert lib.gpuvec_expr_run(wrong, None, None, 0, None) == status
        assert "expr" in last_error()
        assert lib.gpuvec_expr_prepare(wrong, 0) == status
        assert lib.gpuvec_expr_output_type(wrong) == status
        assert lib.gpuvec_expr_is_reduction(wrong) == status
        assert lib.gpuvec_expr_text(wrong, 1, None, 0, ctypes.addressof(size)) == status
        assert lib.gpuvec_expr_destroy(wrong) == (Status.OK if wrong is None else status)
    assert lib.gpuvec_stream_destroy(stream) == Status.OK


def test_texts():
    """A text that does not fit is truncated, and ends with a NUL; its size is returned."""
    with Compiled("a*a + 1", {"a": "f4"}) as compiled:
        whole = compiled.text("PROGRAM")
        lines = ["%0: f32 = array a: f32", "%1: f32 = mul %0, %0", "%2: f32 = 1.0"]
        assert whole.splitlines() == [*lines, "%3: f32 = add %1, %2", "output: f32 = %3"]
        assert ".visible .entry" in compiled.text("PTX")
        buffer = ctypes.create_string_buffer(b"x" * 9, 10)
        number = FORMS["GPUVEC_EXPR_PROGRAM"]
        at = ctypes.addressof(buffer)
        assert lib.gpuvec_expr_text(compiled.handle, number, at, 5, None) == Status.OK
        assert buffer.raw == whole[:4].encode() + b"\0xxxx\0"
        assert lib.gpuvec_expr_text(compiled.handle, number, None, 5, None) == Status.ERROR_NULL
        for wrong in (0, 3, -1):
            assert lib.gpuvec_expr_text(compiled.handle, wrong, at, 5, None) == Status.ERROR_VALUE


def test_prepare(placement):
    """It takes a device of this machine, or 0."""
    with Compiled("a + 1", {"a": "f4"}) as compiled:
        assert lib.gpuvec_expr_prepare(compiled.handle, 0) == Status.OK, last_error()
        for device in (-1, 1000):
            assert lib.gpuvec_expr_prepare(compiled.handle, device) == Status.ERROR_VALUE
            assert "device is" in last_error()
