"""Expressions: formulas as text, which run in one pass over the arrays."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from functools import partial
from itertools import compress
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from ._adapters import Wrap, adapted, kinds_of
from ._arrays import (
    address,
    check_axes,
    check_equal,
    checked,
    device_of,
    find,
    find_all,
)
from ._declarations import (
    ARRAY,
    NAMES,
    SCALAR,
    check_keywords,
    declared,
    dtype_of,
    form_of,
    joined,
    keywords_of,
    merged,
    reads_of,
    scalar,
    shown,
)
from ._device_array import DeviceArray
from ._errors import Error, check, failure
from ._library import functions, native, ordinal, runs
from ._numbers import rounded
from ._owned import Owned
from ._queue import call
from ._results import Output, lengths_of, strided
from ._shapes import (
    broadcast,
    check_number_of_axes,
    order_of,
    plain_axis,
    plain_keepdims,
    reduction,
    strides_in,
)
from ._streams import Stream, check_stream

if TYPE_CHECKING:
    from ._by_key import Keys
    from ._declarations import Declaration, Number
    from ._dlpack import Found
    from ._shapes import Axis, Reduction, Shape
    from ._typing import Array, Table

# The most inputs of a formula.
MOST_INPUTS = 32
# The forms of an expression's text, as in the header.
PROGRAM, PTX = 1, 2


class Expression:
    """A formula that is compiled once and then called with arrays, in any thread.

    A call evaluates the formula for each element, or reduces all elements to one value, in one pass
    and without temporary arrays; the results have the same bits on every processor. The language is
    Python's syntax with NumPy's types: see docs/reference/language.md.

    Parameters
    ----------
    text : str or tuple of str
        The formula, or up to 8 of them, in a tuple or with ``;`` between them, as in
        ``"x + dt*v; v - dt*k*x"``.
    inputs : mapping, optional
    **named : dtype, Scalar, float or int
        The names of the formula's inputs, in a mapping or as keywords, each with the type of its
        arrays: bool, uint8, int8, uint16, int16, uint32, int32, uint64, int64, float16, float32,
        float64, or bfloat16 of ml_dtypes. `Scalar` declares one value. ``float`` and ``int``
        declare a Python number, which takes the type of the other operands, like a number in the
        text. Pass inputs that are named ``out`` or ``stream`` in a mapping.

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

    def __init__(
        self,
        text: str | tuple[str, ...],
        inputs: Mapping[str, Declaration] | None = None,
        /,
        **named: Declaration,
    ) -> None:
        inputs = named if inputs is None else merged(inputs, named)
        self._compile(text, tuple(inputs), tuple(declared(*item) for item in inputs.items()))

    def _compile(
        self,
        given: str | tuple[str, ...],
        names: tuple[str, ...],
        codes: tuple[int, ...],
        own: str | None = None,
        broadcasts: bool = True,
        by: str | None = None,
    ) -> None:
        """Compiles the text.

        `own` names the library's function of an operation on contiguous arrays. Unless it
        `broadcasts`, arrays must have one shape if there is no axis. `by` is the formula of the
        keys, if the text has reductions by key.
        """
        self._own, self._broadcasts = own, broadcasts
        text = joined(given)
        for name, one in (("text", text), ("by", by or "")):
            if "\0" in one:
                raise ValueError(f"{name} has a NUL character: pass a formula without it")
        count = len(names)
        if count > MOST_INPUTS:
            raise ValueError(
                f"the formula has {count} inputs, {', '.join(names[:3])} and others: pass at most "
                f"{MOST_INPUTS}, those that it reads, or evaluate a part of it first"
            )
        self._owned = Owned(functions.gpuvec_expr_destroy)
        handle = self._owned.handle
        encoded = (ctypes.c_char_p * count)(*(name.encode() for name in names))
        types = (ctypes.c_int32 * count)(*codes)
        texts = [one.encode(errors="replace") for one in (text, by) if one is not None]
        compile_ = functions.gpuvec_expr_compile if by is None else functions.gpuvec_expr_compile_by
        check(compile_(*texts, encoded, types, count, ctypes.byref(handle)))
        # The names in all formulas.
        self._read = re.findall(NAMES, text if by is None else f"{text}; {by}")
        self._text, self._names, self._codes, self._handle = text, names, codes, handle.value
        outputs = functions.gpuvec_expr_num_outputs(self._handle)
        self._is_tuple = outputs > 1 or isinstance(given, tuple)
        self._outputs = tuple(self._output(number) for number in range(outputs))
        is_reduction = any(self.reductions)
        self._counted = self._names_of_shape()
        *earlier, last = reads_of(self.program)
        self._inner = [names for reads in earlier for names in reads]
        self._reads = last if outputs > 1 and is_reduction else []
        self._has_dot = is_reduction and " = dot " in self.program
        self._fast: Any = self._fast_path() if by is None else None

    def _names_of_shape(self) -> frozenset[str]:
        """Returns the names of the arrays that have the elements' shape.

        An array that the formula does not read, such as a column of a table, has any shape.
        """
        arrays = frozenset(name for name, code in zip(self._names, self._codes) if code < SCALAR)
        if len(arrays) < 2 or arrays.issubset(self._read):
            return arrays
        return frozenset(re.findall(ARRAY, self.program)) or arrays

    def _occurrences(self) -> list[str]:
        """Returns the arrays' names, each as often as the text has it, or once if it has none."""
        read = [name for name in self._read if name in self._counted]
        return read or [name for name in self._names if name in self._counted]

    def _output(self, number: int) -> Output:
        name = f"out[{number}]" if self._is_tuple else "out"
        dtype = dtype_of(functions.gpuvec_expr_output_type_at(self._handle, number), name)
        is_reduction = functions.gpuvec_expr_is_reduction_at(self._handle, number)
        return Output(name, dtype, bool(is_reduction))

    def _fast_path(self) -> Any:
        """Returns the formula as the extension module calls it; None without the module."""
        if native is None:
            return None
        inputs = [
            (name, dtype_of(code), form_of(code), name in self._counted)
            for name, code in zip(self._names, self._codes)
        ]
        outputs = [(output.dtype, output.is_reduction) for output in self._outputs]
        most_axes = 1 if self._has_dot else 2**31 - 1
        needs_one_shape = bool(self._inner or self._reads)
        takes_axis = any(self.reductions) and not self._inner
        limits = most_axes, self._broadcasts, needs_one_shape, takes_axis
        # Not a method: the formula would own the expression that owns it.
        calls = tuple(partial(each, self._names, self._outputs) for each in (queued, named_failure))
        what = inputs, outputs, self._is_tuple, limits, calls
        return native.Formula(runs(), None, self._handle, *what)

    @property
    def text(self) -> str:
        """The formula; of several, all with ``;`` between them."""
        return self._text

    @property
    def inputs(self) -> Mapping[str, np.dtype[Any]]:
        """The names of the inputs, with the types of their elements."""
        return {name: dtype_of(code) for name, code in zip(self._names, self._codes)}

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the result's elements; a ValueError if there are several: see `dtypes`."""
        return self._only("dtypes").dtype

    @property
    def is_reduction(self) -> bool:
        """True if the only result is one value; a ValueError if there are several results."""
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
        """True for each formula that is a reduction, whose result is one value."""
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
        needed = ctypes.c_size_t()
        check(functions.gpuvec_expr_text(self._handle, form, None, 0, ctypes.byref(needed)))
        text = ctypes.create_string_buffer(needed.value)
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
        inputs: Mapping[str, Array | Number] | Table | None = None,
        /,
        *,
        out: Array | tuple[Array | None, ...] | None = None,
        stream: Stream | None = None,
        axis: Axis = None,
        keepdims: bool = False,
        na: Number | None = None,
        **named: Array | Number,
    ) -> Any:
        """Evaluate the formula, or all formulas: see `evaluate` for the arguments and the result.

        Inputs have the types that the expression declares. ``out`` has the type `dtype`; the result
        of a reduction of all elements may be an array of any shape with one element.
        """
        given = named if inputs is None else merged(inputs, named, self._names)
        if self._fast is not None:
            called = self._fast.call(given, out, stream, axis, keepdims)
            if called is not None:
                return called
        return self._generally(given, out, stream, axis, keepdims, na)

    def _in_order(self, inputs: dict[str, Any], keywords: dict[str, Any]) -> dict[str, Any]:
        check_keywords(self._names, inputs, keywords)
        for name in (*self._names, *inputs):
            if name not in inputs or name not in self._names:
                wrong = "missing" if name not in inputs else "not an input"
                known = ", ".join(self._names) or "none"
                raise TypeError(f"{name} is {wrong}: the formula's inputs are {known}")
        return {name: inputs[name] for name in self._names}

    def _generally(
        self,
        inputs: dict[str, Any],
        out: Any,
        stream: Stream | None,
        axis: Axis = None,
        keepdims: bool = False,
        na: Number | None = None,
        keys: Keys | None = None,
    ) -> Any:
        """Calls the library with arrays of any kind; raises an error if they are wrong."""
        check_stream(stream)
        if tuple(inputs) != self._names:
            inputs = self._in_order(inputs, keywords_of(out, stream, axis, keepdims, na))
        axis, keepdims = plain_axis(axis), plain_keepdims(keepdims)
        kinds = kinds_of(inputs, self._counted)
        wrap: Wrap | None = None
        if kinds:
            inputs, wrap = adapted(inputs, kinds, self._occurrences(), na)
        if self._inner and axis is not None:
            raise TypeError(
                f"axis is {axis}, but reductions inside a formula reduce all elements: evaluate "
                "them with axis= and keepdims=True first, and pass their results as arrays"
            )
        if (axis is not None or keepdims) and not any(self.reductions):
            raise TypeError(
                f"axis is {axis} and keepdims is {keepdims}, which are for reductions: leave them "
                f"out for {self._text!r}"
            )
        given = self._given(out)
        arrays, targets = self._found(inputs, given, stream)
        if keys is not None:
            arrays = keys.placed(arrays, axis)
        scalars = {
            name: scalar(name, inputs[name], code)
            for name, code in zip(self._names, self._codes)
            if code >= SCALAR
        }
        counted = {name: found.array for name, found in arrays.items() if name in self._counted}
        reduced = reduction(self._shape(counted, targets, axis), axis, keepdims)
        if keys is not None:
            reduced = reduced.by_key(keys.groups)
        for output, target in zip(self._outputs, targets):
            if target is not None:
                output.check(target.array, reduced)
        order = None if keys else order_of(list(counted.values()), reduced.shape)
        device = device_of(inputs, arrays)
        results = [
            output.new(reduced, order, device) if one is None else one
            for output, one in zip(self._outputs, given)
        ]
        written = [
            (to or find(output.name, result)).array
            for output, to, result in zip(self._outputs, targets, results)
        ]
        pointers = [
            ctypes.addressof(scalars[name]) if name in scalars else address(arrays[name].array)
            for name in self._names
        ]
        run = self._run(inputs, counted, pointers, written, reduced, keys)
        memory = (*(found.array for found in arrays.values()), *written)
        queued(self._names, self._outputs, stream, (*inputs.values(), *results), memory, *run)
        del scalars

        def returned(output: Output, given: Any, result: Any) -> Any:
            if given is not None or isinstance(result, DeviceArray):
                return result
            if not result.shape and (output.is_reduction or not arrays):
                return result[()]
            axes = reduced.axes if output.is_reduction else ()
            return result if wrap is None else wrap(result, axes)

        values = tuple(map(returned, self._outputs, given, results))
        return values if self._is_tuple else values[0]

    def _run(
        self,
        inputs: dict[str, Any],
        arrays: dict[str, ndarray[Any, Any]],
        pointers: list[int],
        written: list[ndarray[Any, Any]],
        reduced: Reduction,
        keys: Keys | None,
    ) -> list[Any]:
        """Returns the function to call, and its arguments."""
        shape, mask = reduced.shape, reduced.mask if any(self.reductions) else 0
        strides: list[Shape | None] = [None] * (len(pointers) + len(written))
        pointers = [*pointers, *map(address, written)]
        are_whole = not keys and (prod(reduced.result) == 1 or not any(self.reductions))
        are_alike = all(array.shape == shape for array in arrays.values())
        flags = [array.flags.c_contiguous for array in (*arrays.values(), *written)]
        if are_whole and are_alike and all(flags):
            shape, mask = (prod(shape),), int(any(self.reductions))
            if self._own:
                function, count = getattr(functions, self._own), len(arrays)
                # ctypes would convert factors as the thread's floating-point modes say.
                factors = [
                    function.argtypes[0].from_buffer_copy(rounded(inputs[name], arrays["a"].dtype))
                    for name in self._names[count:]
                ]
                return [function, *factors, *pointers[:count], pointers[-1], *shape]
        else:
            for name, array in arrays.items():
                check_number_of_axes(name, array.shape)
            strides = [
                *(strides_in(arrays[one], shape) if one in arrays else None for one in self._names),
                *(one.strides(array, reduced) for one, array in zip(self._outputs, written)),
            ]
        passed = strided(list(zip(pointers, strides)))
        outputs = ctypes.byref(passed, len(self._names) * ctypes.sizeof(passed._type_))
        arguments = [self._handle, len(shape), lengths_of(shape), passed, outputs, mask]
        if keys is not None:
            return [functions.gpuvec_expr_run_by, *arguments, keys.groups, keys.flags]
        return [functions.gpuvec_expr_run_nd, *arguments]

    def _found(
        self, inputs: dict[str, Any], given: tuple[Any, ...], stream: Stream | None
    ) -> tuple[dict[str, Found], list[Found | None]]:
        """Returns the elements of the arrays among the inputs, and of given outputs."""
        codes = {name: code for name, code in zip(self._names, self._codes) if code < SCALAR}
        wanted = [(name, inputs[name]) for name in codes]
        for name, value in wanted:
            if isinstance(value, (np.generic, float, int, bool)):
                raise TypeError(f"{name} is a number, but was declared as an array: pass an array")
        outputs = [(output, one) for output, one in zip(self._outputs, given) if one is not None]
        found = find_all([*wanted, *((output.name, one) for output, one in outputs)], stream)
        arrays = {
            name: checked(name, one, dtype_of(code))
            for (name, code), one in zip(codes.items(), found)
        }
        to = iter(found[len(wanted) :])
        targets = [
            None if one is None else checked(output.name, next(to), output.dtype)
            for output, one in zip(self._outputs, given)
        ]
        return arrays, targets

    def _given(self, out: Any) -> tuple[Any, ...]:
        """Returns the array that the caller gives for each output, or None."""
        if not self._is_tuple:
            return (out,)
        count = len(self._outputs)
        if out is None:
            return (None,) * count
        wanted = f"pass a tuple of {count}: an array for each formula, or None for a new one"
        if not isinstance(out, tuple):
            raise TypeError(f"out is of type {type(out).__name__}: {wanted}")
        if len(out) != count:
            raise ValueError(f"out has {len(out)} elements: {wanted}")
        return out

    def _shape(
        self, arrays: dict[str, ndarray[Any, Any]], targets: list[Found | None], axis: Axis
    ) -> Shape:
        """Returns the shape of the elements: that of the inputs, or of an output if it has more."""
        shapes = {name: array.shape for name, array in arrays.items()}
        shape = broadcast(shapes or {"": ()})
        if self._has_dot and axis is None:
            for name, array in arrays.items():
                if len(shape) > 1:
                    check_axes(name, array)
                if not self._broadcasts:
                    check_equal(name, array, "a", arrays["a"])
        for names in self._inner:
            own = {name: shapes[name] for name in names if name in shapes}
            if own and broadcast(own) != shape:
                raise ValueError(
                    f"a reduction inside the formula reduces elements of shape {broadcast(own)}, "
                    f"and the formula has {shape}: evaluate the reduction first and pass its result"
                )
        for output, names in zip(self._outputs, self._reads):
            own = {name: shapes[name] for name in names if name in shapes}
            if output.is_reduction and own and broadcast(own) != shape:
                raise ValueError(
                    f"{output.name} reduces elements of shape {broadcast(own)}, and other formulas "
                    f"have {shape}: evaluate it by itself"
                )
        is_open = not arrays or not (any(self.reductions) or self._inner)
        elementwise = [not is_reduction for is_reduction in self.reductions]
        for target in compress(targets, elementwise):
            if is_open and target is not None and _holds(target.array.shape, shape):
                return target.array.shape
        return shape

    def __repr__(self) -> str:
        """Return the formula, its inputs and the type of its result."""
        inputs = ", ".join(f"{name}: {shown(code)}" for name, code in zip(self._names, self._codes))
        dtypes = ", ".join(map(str, self.dtypes))
        return f"<gpuvec.Expression: {self._text!r} of {inputs or 'nothing'}, {dtypes}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the expression as its text and the types of its inputs."""
        is_tuple = self._is_tuple and len(self._outputs) == 1
        text = (self._text,) if is_tuple else self._text
        return compiled, (text, self._names, self._codes)


def named(error: Error, names: tuple[str, ...], outputs: tuple[Output, ...]) -> Error:
    """Replaces the numbers of inputs and outputs in an error by their names."""
    described = str(error)
    for number, name in enumerate(names):
        described = described.replace(f"inputs[{number}]", name)
    for number, output in enumerate(outputs):
        described = described.replace(f"outputs[{number}]", output.name)
    described = described.replace("GPUVEC_IGNORE_OUTSIDE", 'outside="ignore"')
    error.args = error.args[0], described
    return error


def queued(names: tuple[str, ...], outputs: tuple[Output, ...], *arguments: Any) -> None:
    """Does `call`, and names the inputs and the outputs in its errors."""
    try:
        call(*arguments)
    except Error as error:
        raise named(error, names, outputs) from None


def named_failure(names: tuple[str, ...], outputs: tuple[Output, ...], status: int) -> Error:
    """Returns the exception for the error that a call of this thread just returned."""
    return named(failure(status), names, outputs)


def compiled(
    text: str | tuple[str, ...],
    names: tuple[str, ...],
    codes: tuple[int, ...],
    *operation: Any,
) -> Expression:
    """Compiles an expression from the numbers of its declarations."""
    expression = Expression.__new__(Expression)
    expression._compile(text, names, codes, *operation)
    return expression


def _holds(target: Shape, shape: Shape) -> bool:
    """True if a shape broadcasts to the shape of an output, by NumPy's rules."""
    try:
        return np.broadcast_shapes(target, shape) == target
    except (ValueError, RuntimeError):
        # NumPy raises the latter for 33 axes and more.
        return False
