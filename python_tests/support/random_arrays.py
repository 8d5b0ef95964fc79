"""Random calls on arrays of any shapes and strides, compared with NumPy.

The formulas are those of random_expressions.py. Their inputs are broadcast, and are parts of larger
arrays: with the axes in any order, gaps, backwards, fields of records. Outputs are such parts too,
or an input in place, or overlap an input, which is refused. Reductions reduce some axes, beside
formulas that reduce none; or they are inside formulas of arrays of one shape, and reduce all.
"""

from __future__ import annotations

import ast
import random
import re
from dataclasses import dataclass
from typing import Any

import gpuvec
import numpy as np
from numpy_oracle import Undecided, Unfit, Wrong, evaluate, is_one_value, is_reduction
from numpy_reductions import REDUCTIONS, Refused
from random_expressions import DTYPES, NAMES, WEIGHTS, Writer, compare, values

LENGTHS = [1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 70]
# Python's fractions take most of the time of reductions.
MOST_ELEMENTS, MOST_REDUCED = 2000, 400
ZEROTH_POWER = re.compile(r"\*\*-?0(\.0)?(?![.\d])")


@dataclass
class Part:
    """A view of an array that no other input uses."""

    parent: np.ndarray
    view: np.ndarray


@dataclass
class Call:
    """A call of gpuvec.evaluate; `outs` are parts for outputs, or None for new arrays."""

    text: str
    inputs: dict[str, Any]
    parts: list[Part]
    outs: list[np.ndarray | None]
    axes: tuple[int, ...] | None = None
    keepdims: bool = False

    def arrays(self, text: str = "") -> dict[str, np.ndarray]:
        """Returns the inputs that are arrays and that the text reads, or one of its formulas."""
        tree = ast.parse(text or self.text)
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        return {
            name: value
            for name, value in self.inputs.items()
            if isinstance(value, np.ndarray) and name in names
        }

    def shape(self, text: str = "") -> tuple[int, ...]:
        """Returns the shape of the elements, or of those of one formula."""
        return np.broadcast_shapes(*(array.shape for array in self.arrays(text).values()))

    def is_of_one_shape(self) -> bool:
        """Says whether each formula reads arrays, and all are of the same shape."""
        texts = self.text.split("; ")
        return all(self.arrays(text) and self.shape(text) == self.shape() for text in texts)

    def expected(self) -> list[np.ndarray]:
        """Returns NumPy's results, of the inputs as they are now."""
        texts = self.text.split("; ")
        results = [evaluate(text, self.inputs, self.shape(), self.axes) for text in texts]
        if self.axes is None or self.keepdims:
            return results
        return [
            np.squeeze(result, self.axes) if is_reduced else result
            for result, is_reduced in zip(results, self.reductions())
        ]

    def reductions(self) -> list[bool]:
        """Says of each formula whether it is a reduction, or one value that is computed of some."""
        roots = [root_of(text) for text in self.text.split("; ")]
        return [is_reduction(root) or is_one_value([root], self.inputs) for root in roots]

    def arrays_at_last(self) -> dict[str, np.ndarray]:
        """Returns the arrays that the text reads, but for those of reductions inside formulas."""
        nodes = [root_of(text) for text in self.text.split("; ")]
        nodes = [part for node in nodes for part in (node.args if is_reduction(node) else [node])]
        names = set()
        while nodes:
            node = nodes.pop()
            names |= {node.id} if isinstance(node, ast.Name) else set()
            nodes += [] if is_reduction(node) else ast.iter_child_nodes(node)
        return {name: array for name, array in self.arrays().items() if name in names}

    def run(self) -> list[np.ndarray]:
        """Returns gpuvec's results."""
        given = [out for out in self.outs if out is not None]
        out = tuple(self.outs) if len(self.outs) > 1 else self.outs[0]
        options = {} if self.axes is None else {"axis": self.axes, "keepdims": self.keepdims}
        results = gpuvec.evaluate(self.text, self.inputs, out=out if given else None, **options)
        return list(results) if isinstance(results, tuple) else [results]

    def __str__(self) -> str:
        """Describes the call."""
        lines = [f"{self.text!r}, axis={self.axes}, keepdims={self.keepdims}"]
        for name, value in [*self.inputs.items(), *zip(("out", "out 1", "out 2"), self.outs)]:
            is_array = isinstance(value, np.ndarray)
            lines.append(
                f"{name}: {value.dtype}, {value.shape}, {value.strides}, {value.ctypes.data:#x}"
                if is_array
                else f"{name}: {value!r}"
            )
        return "\n    ".join(lines)


def part_of(
    chance: random.Random, data: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype
) -> Part:
    """Makes an array with random values, and a view of that shape of it."""
    order = chance.sample(range(len(shape)), len(shape))
    slices, lengths = [], []
    # The elements of the array for each one of the view.
    gaps, most = 1.0, max(3, 500 / np.prod(np.maximum(shape, 1)))
    for axis in order:
        first, step = chance.choice([0, 0, 1, 3]), chance.choice([1, 1, 2, 3])
        rest = chance.choice([0, 1])
        if gaps * (first + step * shape[axis] + rest) > most * max(shape[axis], 1):
            first, step, rest = 0, 1, 0
        last = first + step * (shape[axis] - 1)
        lengths.append(max(last + 1, first) + rest)
        gaps *= lengths[-1] / max(shape[axis], 1)
        if chance.random() < 0.25 and shape[axis]:
            slices.append(slice(last, first - step if first >= step else None, -step))
        else:
            slices.append(slice(first, max(last + 1, first), step))
    stride = chance.choice([1, 1, 1, 2, 3, 5])
    before, after = chance.randrange(4), chance.randrange(1, 4)
    parent = values(data, dtype, before + stride * int(np.prod(lengths)) + after)
    within = parent[before : parent.size - after].reshape(*lengths, stride)
    field = within[..., chance.randrange(stride)]
    return Part(parent, field[(*slices, ...)].transpose(np.argsort(order).astype(int)))


def narrowed(chance: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns a shape that NumPy broadcasts to this one."""
    if chance.random() < 0.5:
        return shape
    ones = tuple(1 if chance.random() < 0.3 else length for length in shape)
    return ones[chance.randrange(len(ones) + 1) :] if chance.random() < 0.5 else ones


def case(seed: int, number: int) -> Call:
    """Returns the call of a number."""
    chance = random.Random(f"arrays {seed} {number}")
    data = np.random.default_rng([seed, number])
    reduces = chance.random() < 0.4
    inside = 0.2 if chance.random() < 0.2 else 0
    shape: tuple[int, ...] = ()
    room = MOST_REDUCED if reduces or inside else MOST_ELEMENTS
    for _ in range(chance.choice([0, 1, 2, 2, 3, 3, 4, 6])):
        length = 0 if chance.random() < 0.01 else chance.choice(LENGTHS)
        if length <= room:
            shape, room = (*shape, length), room // max(length, 1)
    inputs: dict[str, Any] = {}
    parts = []
    for name in chance.sample(NAMES, chance.randint(1, 4)):
        if chance.random() < 0.1:
            inputs[name] = chance.choice([0, 1, 3, -7, 0.5, -2.0, 1e300])
            continue
        dtype = chance.choices(DTYPES, WEIGHTS)[0]
        lengths = shape if inside else narrowed(chance, shape)
        parts.append(part_of(chance, data, lengths, dtype))
        inputs[name] = parts[-1].view
    count = chance.choice([1, 1, 1, 2, 3, 4])
    # The first formula reduces, and others may do so.
    reductions = [reduces and (at == 0 or chance.random() < 0.5) for at in range(count)]
    texts = [text_of(chance, inputs, is_reduced, inside) for is_reduced in reductions]
    chance.shuffle(texts)
    call = Call("; ".join(texts), inputs, parts, [None] * len(texts))
    if not call.is_of_one_shape():
        # A formula that reads an array, if any does.
        text = next(filter(call.arrays, texts), texts[0])
        call = Call(text, inputs, parts, [None])
    if any(call.reductions()) and not inside:
        axes = range(len(call.shape()))
        call.axes = tuple(axis for axis in axes if chance.random() < 0.5)
        call.keepdims = chance.random() < 0.5
    return call


def text_of(chance: random.Random, inputs: dict[str, Any], reduces: bool, inside: float = 0) -> str:
    """Writes a formula that reads an array, if there is one, or a reduction of such formulas."""
    # Without axes, dot takes arrays of one axis.
    writer = Writer(chance, inputs, inside, without="dot" if inside else "")
    size = min(int(chance.expovariate(1 / 4)), 20)
    names = [name for name in REDUCTIONS if name != writer.without]
    name = chance.choice(names) if reduces else ""
    is_truth = name in ("any", "all", "count") or (not reduces and chance.random() < 0.15)
    write = writer.truth if is_truth else writer.number
    second = f", {writer.number(size)}" if name == "dot" else ""
    text = f"{name}({write(size)}{second})" if reduces else write(size)
    # x**0 is 1, of no array's shape.
    return text_of(chance, inputs, reduces, inside) if ZEROTH_POWER.search(text) else text


def root_of(text: str) -> ast.expr:
    """Returns the outermost node of a formula."""
    return ast.parse(text, mode="eval").body


def choose_outputs(call: Call, expected: list[np.ndarray], seed: int, number: int) -> list[Part]:
    """Chooses outputs for results: new ones, parts of arrays, inputs, and what overlaps inputs."""
    chance = random.Random(f"outputs {seed} {number}")
    data = np.random.default_rng([seed, number, 1])
    parts = []
    for at, result in enumerate(expected):
        pick = chance.random()
        alike = [
            array
            for array in call.arrays().values()
            if array.dtype == result.dtype and array.shape == result.shape and array.ndim
        ]
        if pick < 0.3:
            continue
        if pick < 0.6 and alike:
            out = chance.choice(alike)
            if pick >= 0.5:
                axis = chance.randrange(out.ndim)
                out = np.flip(out, axis) if chance.random() < 0.5 else np.roll(out, 0).copy()
            call.outs[at] = out
            continue
        part = part_of(chance, data, result.shape, result.dtype)
        parts.append(part)
        call.outs[at] = part.view
    return parts


def conflict(call: Call) -> bool | None:
    """Says whether an output overlaps an array that it is not.

    None if it may be refused: only their ranges overlap, or a reduction's output begins where an
    input does, which is right where nothing or everything is reduced.
    """
    shape = call.shape()
    given = [(out, of) for out, of in zip(call.outs, call.reductions()) if out is not None]
    outs = [out for out, _ in given]
    is_near = False
    for at, (out, is_reduced) in enumerate(given):
        arrays = [np.broadcast_to(array, shape) for array in call.arrays_at_last().values()]
        if not is_reduced:
            arrays = [array for array in arrays if not is_same(out, array)]
        elif any(out.ctypes.data == array.ctypes.data for array in arrays):
            return None
        others = arrays + outs[:at]
        if any(np.shares_memory(out, other) for other in others):
            return True
        is_near |= any(np.may_share_memory(out, other) for other in others)
    return None if is_near else False


def is_same(out: np.ndarray, array: np.ndarray) -> bool:
    """Says whether two arrays of a shape are the same elements at the same places."""
    strides = zip(out.shape, out.strides, array.strides)
    return (
        out.ctypes.data == array.ctypes.data
        and out.shape == array.shape
        and all(length < 2 or a == b for length, a, b in strides)
    )


def check(call: Call, seed: int, number: int) -> tuple[str, str | None]:
    """Compares a call with NumPy: returns the outcome, and what is wrong."""
    if not call.is_of_one_shape():
        return "undecided", None
    try:
        expected: Any = call.expected()
    except Wrong as wrong:
        return "wrong", str(wrong)
    except (Undecided, OverflowError):
        return "undecided", None
    except Refused as refused:
        expected = refused
    is_refused = isinstance(expected, Refused)
    parts = [*call.parts]
    if not is_refused:
        parts += choose_outputs(call, expected, seed, number)
    overlaps = None if is_refused else conflict(call)
    before = [part.parent.copy() for part in parts]
    try:
        found = call.run()
    except (gpuvec.Error, OverflowError) as error:
        if any(part.parent.tobytes() != old.tobytes() for part, old in zip(parts, before)):
            return "wrong", "a call that was refused wrote something"
        if overlaps is not False and "overlap" in str(error):
            return "overlap", None
        return ("refused", None) if is_refused else ("wrong", f"it is refused: {error}")
    if overlaps:
        return "wrong", "an overlap is not refused"
    if isinstance(expected, Unfit) and 0 in call.shape():
        return "undecided", None
    if is_refused:
        return "wrong", f"it should be refused: {expected}"
    for got, right in zip(found, expected):
        outcome, message = compare(np.asarray(got), right)
        if outcome != "equal":
            return outcome, message
    return compare_rest(call, parts, before)


def compare_rest(call: Call, parts: list[Part], before: list[np.ndarray]) -> tuple[str, str | None]:
    """Fails if anything but the outputs was written."""
    for part, old in zip(parts, before):
        for out in call.outs:
            if out is not None and np.may_share_memory(out, part.parent):
                # The same elements of the copy.
                offset = out.ctypes.data - part.parent.ctypes.data
                np.ndarray(out.shape, out.dtype, old, offset, out.strides)[...] = out
        if part.parent.tobytes() != old.tobytes():
            return "wrong", "something around an output or in an input was written"
    return ("in place" if is_in_place(call) else "equal"), None


def is_in_place(call: Call) -> bool:
    """Says whether an output is an input."""
    return any(
        out is array for out in call.outs if out is not None for array in call.arrays().values()
    )


def outcome(seed: int, number: int) -> str:
    """Returns the outcome of a number."""
    return check(case(seed, number), seed, number)[0]


def report(seed: int, number: int) -> str | None:
    """Describes what is wrong with the call of a number."""
    call = case(seed, number)
    outcome, message = check(call, seed, number)
    if outcome != "wrong":
        return None
    return f"seed {seed}, number {number}: {message}\n    {call}"
