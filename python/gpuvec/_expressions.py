"""Expressions: formulas as text, which run in one pass over the arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ctypes import (
    addressof,
    byref,
    c_char_p,
    c_int32,
    c_int64,
    c_size_t,
    c_void_p,
    cast,
    create_string_buffer,
)
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import numpy as np
from numpy import ndarray

from ._arrays import address, check_axes, check_dtype, check_layout, find, typed
from ._device_array import DeviceArray
from ._dlpack import Found
from ._errors import Error, check, failure
from ._library import functions, native, ordinal
from ._owned import Owned
from ._queue import call
from ._streams import Stream, check_stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import DTypeLike

    from ._typing import Array

# The number of each element type, and the flags that are added to it, as in the header.
TYPES: dict[np.dtype[Any], int] = {
    np.dtype(name): number
    for number, name in enumerate(
        "bool uint8 int8 uint16 int16 uint32 int32 int64 float32 float64".split(), start=1
    )
}
DTYPES = {number: dtype for dtype, number in TYPES.items()}
SCALAR, NUMBER = 256, 512
PROGRAM, PTX = 1, 2

# The declarations of Python's numbers, which take the type of their partners.
NUMBERS: dict[type, int] = {
    float: NUMBER | TYPES[np.dtype(np.float64)],
    int: NUMBER | TYPES[np.dtype(np.int64)],
    bool: SCALAR | TYPES[np.dtype(np.bool_)],
}

WEAK_FLOAT = NUMBERS[float]

# More formulas than a program has; when this number is exceeded, `evaluate` forgets all of them.
MOST_REMEMBERED = 256


class Scalar:
    """Declares an input of an `Expression` that is one value of a type, given at each call.

    A value is a number of Python's or NumPy's that NumPy's casting ``"same_kind"`` converts to the
    type: floats take any real number, integers an integer or a bool, and bools a bool. For integers
    the value counts: one that the type cannot hold is an ``OverflowError``. Any other value is a
    ``TypeError``.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> scaled = gpuvec.Expression("k * x", x=np.float32, k=gpuvec.Scalar(np.float32))
    >>> scaled(x=np.float32([1, 2]), k=3)
    array([3., 6.], dtype=float32)
    """

    __slots__ = ("dtype",)

    dtype: np.dtype[Any]

    def __init__(self, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)

    def __repr__(self) -> str:
        """Return the declaration."""
        return f"gpuvec.Scalar({self.dtype})"


Declaration = Union["DTypeLike", Scalar, type]
Number = Union[float, int, bool, np.generic]


class Output(NamedTuple):
    """An output of an expression."""

    # The name in errors.
    name: str
    dtype: np.dtype[Any]
    is_reduction: bool


class Expression:
    """A formula that is compiled once and then called with arrays, in any thread.

    A call evaluates the formula for each element, or reduces all elements to one value, in one pass
    and without temporary arrays; the results have the same bits on every processor. The language is
    Python's syntax with NumPy's types: see docs/expressions.md.

    Parameters
    ----------
    text : str or tuple of str
        The formula, such as ``"sqrt(a*a + b*b)"`` or ``"sum(w * abs(x))"``; or up to 8 of them, in
        a tuple or with ``;`` between them, as in ``"x + dt*v; v - dt*k*x"``. A call evaluates them
        in one pass, and returns a tuple with the result of each.
    inputs : mapping, optional
    **named : dtype, Scalar, float or int
        The names of the formula's inputs, in a mapping or as keywords, each with the type of its
        arrays: bool, uint8, int8, uint16, int16, uint32, int32, int64, float32 or float64. `Scalar`
        declares one value. ``float`` and ``int`` declare a Python number, which takes the type of
        its partners, as a number in the text does. A call takes inputs that are named ``out`` or
        ``stream`` in a mapping.

    Raises
    ------
    ExpressionError
        If the text is wrong; the message shows the place.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> hypotenuse = gpuvec.Expression("sqrt(a*a + b*b)", a=np.float32, b=np.float32)
    >>> hypotenuse(a=np.float32([3, 5]), b=np.float32([4, 12]))
    array([ 5., 13.], dtype=float32)
    >>> hypotenuse.dtype, hypotenuse.is_reduction
    (dtype('float32'), False)
    >>> step = gpuvec.Expression("x + dt*v; v - dt*x; sum(v*v)", x="f4", v="f4", dt=float)
    >>> step(x=np.float32([0, 1]), v=np.float32([2, 3]), dt=0.5)
    (array([1. , 2.5], dtype=float32), array([2. , 2.5], dtype=float32), np.float32(13.0))
    """

    __slots__ = (
        "__weakref__",
        "_codes",
        "_handle",
        "_has_dot",
        "_is_tuple",
        "_names",
        "_outputs",
        "_owned",
        "_pointers",
        "_short",
        "_text",
    )

    def __init__(
        self,
        text: str | tuple[str, ...],
        inputs: Mapping[str, Declaration] | None = None,
        /,
        **named: Declaration,
    ) -> None:
        inputs = _merged(inputs, named)
        self._compile(text, tuple(inputs), tuple(_declared(*item) for item in inputs.items()))

    def _compile(
        self, given: str | tuple[str, ...], names: tuple[str, ...], codes: tuple[int, ...]
    ) -> None:
        text = _joined(given)
        if "\0" in text:
            raise ValueError("text has a NUL character: pass a formula without it")
        count = len(names)
        self._owned = Owned(functions.gpuvec_expr_destroy)
        handle = self._owned.handle
        encoded = (c_char_p * count)(*(name.encode() for name in names))
        types = (c_int32 * count)(*codes)
        content = text.encode(errors="replace")
        check(functions.gpuvec_expr_compile(content, encoded, types, count, byref(handle)))
        self._text, self._names, self._codes, self._handle = text, names, codes, handle.value
        outputs = functions.gpuvec_expr_num_outputs(self._handle)
        self._is_tuple = outputs > 1 or isinstance(given, tuple)
        self._outputs = tuple(self._output(number) for number in range(outputs))
        self._pointers: Any = c_void_p * count
        self._has_dot = any(self.reductions) and " = dot " in self.program
        self._short = self._short_way()

    def _output(self, number: int) -> Output:
        dtype = DTYPES[functions.gpuvec_expr_output_type_at(self._handle, number)]
        is_reduction = functions.gpuvec_expr_is_reduction_at(self._handle, number)
        return Output(f"out[{number}]" if self._is_tuple else "out", dtype, bool(is_reduction))

    def _short_way(self) -> Any:
        """Returns the extension module's way to call the formula, for arrays and Python floats."""
        if native is None or self._is_tuple:
            return None
        if not all(code in DTYPES or code == WEAK_FLOAT for code in self._codes):
            return None
        inputs = [DTYPES.get(code) for code in self._codes]
        run = cast(functions.gpuvec_expr_run, c_void_p).value
        most_axes = 1 if self._has_dot else np.iinfo(np.int32).max
        output = self.dtype, self.is_reduction
        return native.Formula(run, self._handle, inputs, output, most_axes, failure)

    @property
    def text(self) -> str:
        """The formula; of several, all with ``;`` between them."""
        return self._text

    @property
    def inputs(self) -> Mapping[str, np.dtype[Any]]:
        """The names of the inputs, with the types of their elements."""
        return {name: DTYPES[code & 255] for name, code in zip(self._names, self._codes)}

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the result's elements; a ValueError if there are several: see `dtypes`."""
        return self._only("dtypes").dtype

    @property
    def is_reduction(self) -> bool:
        """Says whether the only result is one value; a ValueError if there are several results."""
        return self._only("reductions").is_reduction

    def _only(self, instead: str) -> Output:
        if len(self._outputs) > 1:
            raise ValueError(f"the text has {len(self._outputs)} formulas: read {instead}")
        return self._outputs[0]

    @property
    def dtypes(self) -> tuple[np.dtype[Any], ...]:
        """The type of the elements of each formula's result."""
        return tuple(output.dtype for output in self._outputs)

    @property
    def reductions(self) -> tuple[bool, ...]:
        """Says of each formula whether it is a reduction, whose result is one value."""
        return tuple(output.is_reduction for output in self._outputs)

    @property
    def program(self) -> str:
        """The program: a line for each value, in the order of evaluation."""
        return self._described(PROGRAM)

    @property
    def ptx(self) -> str:
        """The kernel, in PTX; if there are several, one text after the other."""
        return self._described(PTX)

    def _described(self, form: int) -> str:
        needed = c_size_t()
        check(functions.gpuvec_expr_text(self._handle, form, None, 0, byref(needed)))
        text = create_string_buffer(needed.value)
        check(functions.gpuvec_expr_text(self._handle, form, text, len(text), None))
        return text.value.decode()

    def prepare(self, device: int = 0) -> None:
        """Have the driver of a GPU compile the formula now; without a GPU, do nothing.

        Otherwise the first call that runs on the GPU waits for the compilation, some 10 to 100 ms.
        With placement ``auto``, calls on host arrays run on the cores until the formula is
        compiled, or until they have lost as much time as the driver is expected to take.
        """
        check(functions.gpuvec_expr_prepare(self._handle, ordinal(device)))

    def __call__(
        self,
        inputs: Mapping[str, Array | Number] | None = None,
        /,
        *,
        out: Array | tuple[Array | None, ...] | None = None,
        stream: Stream | None = None,
        **named: Array | Number,
    ) -> Any:
        """Evaluate the formula, or all formulas.

        Parameters
        ----------
        inputs : mapping, optional
            The values of inputs by name, as with the keywords.
        out : array or tuple of arrays, optional
            The result, of the type `dtype`, and of the inputs' shape or, for a reduction, of one
            element. It may be an input whose elements have the same size. Of several formulas a
            tuple with an array for each, or None for a new one. All formulas use the inputs as they
            were before the call.
        stream : Stream, optional
            Queues the work behind the stream's earlier work. Without a stream the call returns when
            the result is there.
        **named : array or number
            The value of each input: C-contiguous arrays of one shape, as `gpuvec.add` takes them,
            or a number for a scalar.

        Returns
        -------
        array or scalar, or a tuple of them
            ``out``. If it is None, a new array: a `DeviceArray` if an input is on a GPU, or an
            ndarray; of a reduction, a scalar. Of several formulas, or of those in a tuple, a tuple
            with the result of each.
        """
        return self._call(_merged(inputs, named), out, stream)

    def _call(self, inputs: dict[str, Any], out: Any, stream: Stream | None) -> Any:
        """Calls the library in the short way, or else in the general one."""
        if tuple(inputs) != self._names:
            inputs = self._in_order(inputs, out, stream)
        if stream is None and self._short is not None:
            try:
                called = self._short.call(inputs, out)
            except Error as error:
                raise self._named(error) from None
            if called is not None:
                return called
        return self._generally(inputs, out, stream)

    def _in_order(self, inputs: dict[str, Any], out: Any, stream: Any) -> dict[str, Any]:
        _check_keywords(self._names, inputs, out, stream)
        for name in self._names:
            if name not in inputs:
                raise TypeError(f"{name} is missing: the formula's inputs are {self._listed()}")
        for name in inputs:
            if name not in self._names:
                raise TypeError(f"{name} is no input: the formula's inputs are {self._listed()}")
        return {name: inputs[name] for name in self._names}

    def _listed(self) -> str:
        return ", ".join(self._names) or "none"

    def _named(self, error: Error) -> Error:
        """Names the inputs and the outputs in an error."""
        for number, name in enumerate(self._names):
            described = str(error).replace(f"inputs[{number}]", name)
            error.args = error.args[0], described
        for number, output in enumerate(self._outputs):
            described = str(error).replace(f"outputs[{number}]", output.name)
            error.args = error.args[0], described
        return error

    def _generally(self, inputs: dict[str, Any], out: Any, stream: Stream | None) -> Any:
        """Calls the library with arrays of any kind; raises an error if they are wrong."""
        check_stream(stream)
        arrays, pointers, kept = self._found(inputs, stream)
        given = self._given(out)
        targets = [
            None
            if one is None
            else typed(output.name, find(output.name, one, stream), output.dtype)
            for output, one in zip(self._outputs, given)
        ]
        shape, size = self._shape(arrays, targets)
        device = _device(inputs, arrays)
        for output, target in zip(self._outputs, targets):
            if target is not None:
                _check_target(output, target.array, () if output.is_reduction else shape)
        results = [
            _new(output, shape, device) if one is None else one
            for output, one in zip(self._outputs, given)
        ]
        written = [_of_new(result) if to is None else to for result, to in zip(results, targets)]
        count = len(written)
        addresses = (c_void_p * count)(*(address(to.array) for to in written))
        run = functions.gpuvec_expr_run_outputs, self._handle, self._pointers(*pointers), addresses
        objects, found = (*inputs.values(), *results), (*arrays.values(), *written)
        try:
            call(stream, objects, found, *run, count, size)
        except Error as error:
            raise self._named(error) from None
        del kept
        returned = tuple(
            # A new array of no axes is a scalar.
            result[()]
            if one is None and isinstance(result, ndarray) and not result.shape
            else result
            for one, result in zip(given, results)
        )
        return returned if self._is_tuple else returned[0]

    def _found(
        self, inputs: dict[str, Any], stream: Stream | None
    ) -> tuple[dict[str, Found], list[int | None], list[Any]]:
        """Returns the arrays among the inputs, the addresses of all, and the scalars at some."""
        arrays: dict[str, Found] = {}
        pointers: list[int | None] = []
        kept = []
        for (name, value), code in zip(inputs.items(), self._codes):
            if code > 255:
                scalar = _scalar(name, value, code)
                kept.append(scalar)
                pointers.append(addressof(scalar))
                continue
            if isinstance(value, (np.generic, float, int, bool)):
                raise TypeError(f"{name} is a number, and was declared as an array: pass an array")
            dtype = DTYPES[code]
            found = typed(name, find(name, value, stream), dtype)
            check_dtype(name, found.array, [dtype])
            check_layout(name, found.array)
            arrays[name] = found
            pointers.append(address(found.array))
        return arrays, pointers, kept

    def _given(self, out: Any) -> tuple[Any, ...]:
        """Returns the array that the caller gives for each output, or None."""
        if not self._is_tuple:
            return (out,)
        count = len(self._outputs)
        if out is None:
            return (None,) * count
        wanted = f"pass a tuple of {count}: an array for each formula, or None for a new one"
        if not isinstance(out, tuple):
            raise TypeError(f"out is a {type(out).__name__}: {wanted}")
        if len(out) != count:
            raise ValueError(f"out has {len(out)} elements: {wanted}")
        return out

    def _shape(
        self, arrays: dict[str, Found], targets: list[Found | None]
    ) -> tuple[tuple[int, ...], int]:
        """Returns the shape of the inputs and of each output's elements, and their number."""
        shapes = {name: found.array.shape for name, found in arrays.items()}
        first = next(iter(shapes), None)
        if first is None:
            given = (
                target.array.shape
                for target, output in zip(targets, self._outputs)
                if target is not None and not output.is_reduction
            )
            shape = next(given, ())
            return shape, int(np.prod(shape, dtype=np.int64))
        for name, shape in shapes.items():
            if shape != shapes[first]:
                raise ValueError(
                    f"{name} has shape {shape} and {first} has {shapes[first]}: pass arrays of one "
                    "shape, there is no broadcasting"
                )
        if self._has_dot:
            check_axes(first, arrays[first].array)
        return shapes[first], arrays[first].array.size

    def __repr__(self) -> str:
        """Return the formula, its inputs and the type of its result."""
        inputs = ", ".join(
            f"{name}: {_shown(code)}" for name, code in zip(self._names, self._codes)
        )
        dtypes = ", ".join(map(str, self.dtypes))
        return f"<gpuvec.Expression: {self._text!r} of {inputs or 'nothing'}, {dtypes}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the expression as its text and the types of its inputs."""
        is_tuple = self._is_tuple and len(self._outputs) == 1
        text = (self._text,) if is_tuple else self._text
        return _compiled, (text, self._names, self._codes)


def _joined(text: str | tuple[str, ...]) -> str:
    """Returns the text of a formula, or of several."""
    texts = text if isinstance(text, tuple) else (text,)
    for one in texts:
        if not isinstance(one, str):
            raise TypeError(f"text is a {type(one).__name__}: pass a str, or a tuple of them")
    return "; ".join(texts)


def _check_target(output: Output, array: np.ndarray[Any, Any], shape: tuple[int, ...]) -> None:
    """Raises an error unless the result of an output fits into an array."""
    check_dtype(output.name, array, [output.dtype])
    check_layout(output.name, array, is_output=True)
    if array.shape != shape and not (output.is_reduction and array.size == 1):
        wanted = "an array of one element" if output.is_reduction else f"the shape {shape}"
        raise ValueError(f"{output.name} has shape {array.shape}: pass {wanted}")


def _new(output: Output, shape: tuple[int, ...], device: int | None) -> Any:
    """Returns a new array for an output, on a GPU if the inputs are there."""
    if output.is_reduction or device is None:
        return np.empty(() if output.is_reduction else shape, output.dtype)
    return DeviceArray(shape, output.dtype, device)


def _of_new(result: Any) -> Found:
    return result._found if isinstance(result, DeviceArray) else Found(result)


def _compiled(
    text: str | tuple[str, ...], names: tuple[str, ...], codes: tuple[int, ...]
) -> Expression:
    expression = Expression.__new__(Expression)
    expression._compile(text, names, codes)
    return expression


_remembered: dict[Any, Expression] = {}


def evaluate(
    text: str | tuple[str, ...],
    inputs: Mapping[str, Array | Number] | None = None,
    /,
    *,
    out: Array | tuple[Array | None, ...] | None = None,
    stream: Stream | None = None,
    **named: Array | Number,
) -> Any:
    """Evaluate formulas of arrays and numbers, in one pass and without temporary arrays.

    The formula is compiled for the types of the arguments, and remembered: it is the `Expression`
    that these types declare.

    Parameters
    ----------
    text : str or tuple of str
        The formula, such as ``"sqrt(a*a + b*b)"`` or ``"sum(w * abs(x))"``: see
        docs/expressions.md. Up to 8 formulas, in a tuple or with ``;`` between them, are evaluated
        in one pass.
    inputs : mapping, optional
        The values of names in the formula. Pass columns and other data in it: as keywords, one that
        is named ``out`` would be the result, and be overwritten.
    out : array or tuple of arrays, optional
        The result; it may be an input whose elements have the same size. Of several formulas a
        tuple with an array for each, or None for a new one. All formulas use the inputs as they
        were before the call.
    stream : Stream, optional
        Queues the work behind the stream's earlier work. Without a stream the function returns when
        the result is there.
    **named : array or number
        The value of each name in the formula that is not in the mapping. Names are never looked up
        in the caller's variables. Arrays are C-contiguous and of one shape. A NumPy scalar keeps
        its type; a Python float or int takes the type of its partners, as a number in the text
        does.

    Returns
    -------
    array or scalar, or a tuple of them
        ``out``. If it is None, a new array: a `DeviceArray` if an input is on a GPU, or an ndarray;
        of a reduction, a scalar. Of several formulas, or of those in a tuple, a tuple with the
        result of each.

    Raises
    ------
    ExpressionError
        If the text is wrong; the message shows the place.
    TypeError
        If an argument is not an array or a number, or has another type.
    ValueError
        If an argument has another shape, is not contiguous or not aligned, or is an output that is
        read-only; as `ArgumentError`, if the output overlaps an input without being that input.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> a, b = np.float32([1, 2]), np.float32([10, 20])
    >>> gpuvec.evaluate("a*b + k", a=a, b=b, k=0.5)
    array([10.5, 40.5], dtype=float32)
    >>> float(gpuvec.evaluate("sum(where(a > 1, b, 0))", a=a, b=b))
    20.0
    >>> gpuvec.evaluate("a + out", {"a": a, "out": b})
    array([11., 22.], dtype=float32)
    >>> gpuvec.evaluate("b; a + b; max(a)", a=a, b=b, out=(a, b, None))
    (array([10., 20.], dtype=float32), array([11., 22.], dtype=float32), np.float32(2.0))
    >>> gpuvec.evaluate("a + c", a=a, b=b)
    Traceback (most recent call last):
    ...
    gpuvec._errors.ExpressionError: no array is named 'c'
    a + c
        ^
    """
    given = _merged(inputs, named)
    try:
        codes = [
            TYPES[value.dtype] if type(value) is ndarray else _code(name, value)
            for name, value in given.items()
        ]
    except KeyError:
        codes = [_code(name, value) for name, value in given.items()]
    key = (text, *given, *codes)
    expression = _remembered.get(key)
    if expression is None:
        names = _NAMES.findall(_joined(text))
        _check_keywords(names, given, out, stream)
        if len(_remembered) >= MOST_REMEMBERED:
            _remembered.clear()
        expression = _remembered[key] = _compiled(text, tuple(given), tuple(codes))
    return expression._call(given, out, stream)


_NAMES = re.compile(r"[^\W\d]\w*")


def _merged(inputs: Mapping[str, Any] | None, named: dict[str, Any]) -> dict[str, Any]:
    """Returns the inputs of a mapping and of keywords."""
    if inputs is None:
        return named
    if not isinstance(inputs, Mapping):
        raise TypeError(f"inputs is a {type(inputs).__name__}: pass a mapping of names to inputs")
    for name in inputs:
        if not isinstance(name, str):
            raise TypeError(f"inputs has the name {name!r}: pass names that are strings")
        if name in named:
            raise TypeError(f"{name} is in the mapping and a keyword: pass it once")
    return {**inputs, **named}


def _check_keywords(names: Iterable[str], given: dict[str, Any], out: Any, stream: Any) -> None:
    """Raises TypeError if ``out=`` or ``stream=`` may be meant as an input of the formula."""
    for keyword, value in (("out", out), ("stream", stream)):
        if value is not None and keyword in names and keyword not in given:
            raise TypeError(
                f"{keyword} is an input of the formula, and {keyword}= is not: pass the input in a "
                f'mapping, {{"{keyword}": ...}}, before the keywords'
            )


def _code(name: str, value: Any) -> int:
    """Returns the declaration of an argument."""
    number = NUMBERS.get(type(value))
    if number is not None:
        return number
    if isinstance(value, np.generic):
        return SCALAR | _type(name, value.dtype)
    found = find(name, value)
    if found.is_raw:
        raise TypeError(f"{name} has no element type but bytes: pass np.frombuffer(memory, dtype)")
    check_dtype(name, found.array, list(TYPES))
    return TYPES[found.array.dtype]


def _declared(name: str, declared: Declaration) -> int:
    """Returns the number of a declaration."""
    if isinstance(declared, Scalar):
        return SCALAR | _type(name, declared.dtype)
    if isinstance(declared, type) and declared in NUMBERS and declared is not bool:
        return NUMBERS[declared]
    return _type(name, np.dtype(declared))


def _type(name: str, dtype: np.dtype[Any]) -> int:
    check_dtype(name, np.empty(0, dtype), list(TYPES))
    return TYPES[dtype]


# The kinds of numbers that are converted to a scalar of a type, and their names.
CONVERTED = {
    "b": ("b", "a bool"),
    "i": ("biu", "an integer"),
    "u": ("biu", "an integer"),
    "f": ("biuf", "a real number"),
}


def _scalar(name: str, value: Any, code: int) -> Any:
    """Returns the value of a scalar, as the library reads it."""
    dtype = DTYPES[code & 255]
    if not isinstance(value, (np.generic, float, int)):
        raise TypeError(f"{name} is a {type(value).__name__}: pass a number")
    kind = value.dtype.kind if isinstance(value, np.generic) else np.dtype(type(value)).kind
    kinds, wanted = CONVERTED[dtype.kind]
    if kind not in kinds:
        raise TypeError(f"{name} is {value!r}, and its type is {dtype}: pass {wanted}")
    if dtype.kind in "iu":
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        if not least <= int(value) <= most:
            raise OverflowError(
                f"{name} is {_digits(value)}, which {dtype} does not hold: pass an integer from "
                f"{least} to {most}"
            )
    try:
        number = np.asarray(value, dtype)
    except OverflowError:
        raise OverflowError(
            f"{name} is {_digits(value)}, which {dtype} does not hold: pass a smaller number"
        ) from None
    return (c_int64 * 1).from_buffer_copy(number.tobytes().ljust(8, b"\0"))


def _digits(integer: Any) -> str:
    """Returns the digits of an integer, unless there are too many for a message."""
    bits = int(integer).bit_length()
    return str(integer) if bits <= 128 else f"an integer of {bits} bits"


def _device(inputs: dict[str, Any], arrays: dict[str, Found]) -> int | None:
    """Returns the GPU for a new result: that of an input; None if it is ordinary memory."""
    for name, found in arrays.items():
        if isinstance(inputs[name], DeviceArray) or found.device is not None:
            return found.device or 0
    return None


def _shown(code: int) -> str:
    kind = {0: "", SCALAR: "scalar ", NUMBER: "number "}[code & ~255]
    return f"{kind}{DTYPES[code & 255]}"
