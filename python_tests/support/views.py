"""Random views of arrays: parts of them, in any order of axes."""

from collections.abc import Callable

import numpy as np
from formulas import values
from hypothesis import strategies as st
from streams import Resources


@st.composite
def parts(draw, shape: tuple, may_broadcast: bool) -> tuple[tuple, Callable]:
    """Draws the shape of a parent, and the view of that shape which is taken of it.

    The view has the parent's axes in any order, with gaps, backwards, and broadcast.
    """
    order = draw(st.permutations(range(len(shape))))
    slices, lengths = [], []
    for axis in order:
        first, step, rest = draw(st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(0, 2)))
        is_one, is_backwards = draw(st.tuples(*[st.sampled_from([False, False, True])] * 2))
        count = 1 if may_broadcast and is_one else shape[axis]
        last = first + step * (count - 1)
        before = first - step if first >= step else None
        is_backwards &= count > 0
        slices.append(
            slice(last, before, -step) if is_backwards else slice(first, max(last + 1, 0), step)
        )
        lengths.append(max(last + 1, 0) + rest)

    def view(parent: np.ndarray) -> np.ndarray:
        return parent[(*slices, ...)].transpose(np.argsort(order).astype(int))

    return tuple(lengths), view


def made(data: st.DataObject, shape: tuple, dtype: str, fill: Callable = values) -> np.ndarray:
    """Draws an input of that shape, whose elements are those of `fill`."""
    lengths, view = data.draw(parts(shape, True))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    parent = fill(random, np.dtype(dtype), int(np.prod(lengths))).reshape(lengths)
    return np.broadcast_to(view(parent), shape)


class Located:
    """A view of an array whose elements are in memory of some kind."""

    def __init__(self, resources: Resources, kind: str, parent: np.ndarray, view: np.ndarray):
        """Copies the parent, which is contiguous, to the memory."""
        self.parent, self.view = parent, view
        self.memory = resources.array(kind, parent)

    def at(self, view: np.ndarray) -> tuple[int, tuple]:
        """Returns the address and the strides of a view of the parent."""
        offset = view.ctypes.data - self.parent.ctypes.data
        return self.memory.address + offset, view.strides

    @property
    def argument(self) -> tuple[int, tuple]:
        """Returns the address and the strides of the view."""
        return self.at(self.view)

    def check(self) -> None:
        """Fails unless the memory has the parent's bytes."""
        assert self.memory.get()[: self.parent.nbytes].tobytes() == self.parent.tobytes()


def located(
    data: st.DataObject,
    resources: Resources,
    kind: str,
    shape: tuple,
    dtype: str,
    is_input: bool,
    fill: Callable[[np.random.Generator, np.dtype, int], np.ndarray] = values,
) -> Located:
    """Draws a view of that shape in memory of a kind: an input's may be broadcast."""
    lengths, view = data.draw(parts(shape, is_input))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    # Elements behind the last one, which no call may change.
    parent = fill(random, np.dtype(dtype), int(np.prod(lengths)) + 3)
    whole = parent[: parent.size - 3].reshape(lengths)
    return Located(
        resources, kind, parent, np.broadcast_to(view(whole), shape) if is_input else view(whole)
    )
