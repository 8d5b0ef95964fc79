"""Expressions on arrays of any strides: broadcasting, slices, and other orders of axes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from bindings import last_error, lib
from formulas import Compiled
from streams import Resources, ok
from views import Located

# The shape of an array, and the part of it that an expression uses.
Part = tuple[tuple[int, ...], Callable[[np.ndarray], np.ndarray]]


def whole(array: np.ndarray) -> np.ndarray:
    """Returns the array itself."""
    return array


@dataclass(frozen=True)
class StridedCase:
    """An expression of some of a, b and c, of floats, with their parts and that of the output."""

    name: str
    text: str
    # Returns the parts for about this many elements, the output's last.
    parts: Callable[[int], list[Part]]

    def __str__(self) -> str:
        """Returns the name, for a test's."""
        return self.name

    def views(self, n: int, random: np.random.Generator | None = None) -> list[list[np.ndarray]]:
        """Returns arrays and views of the output's shape, with any values or random ones."""
        parents = [
            np.empty(shape, "f4") if random is None else random.random(shape, np.float32)
            for shape, _ in self.parts(n)
        ]
        views = [view(parent) for parent, (_, view) in zip(parents, self.parts(n))]
        *inputs, out = views
        views = [*(np.broadcast_to(view, out.shape) for view in inputs), out]
        return [list(pair) for pair in zip(parents, views)]

    def inputs(self) -> dict[str, str]:
        """Returns the declarations."""
        return {name: "f4" for name in "abc" if name in self.text}

    def expected(self, views: list[np.ndarray]) -> np.ndarray:
        """Returns NumPy's result."""
        return eval(self.text, dict(zip(self.inputs(), views)))

    def check(self, kinds: list[str], n: int, is_queued: bool = False) -> None:
        """Fails unless a call on memory of these kinds writes NumPy's result, and nothing else."""
        random = np.random.default_rng(n)
        with Resources() as resources, Compiled(self.text, self.inputs()) as compiled:
            *arrays, out = (
                Located(resources, kind, *pair) for kind, pair in zip(kinds, self.views(n, random))
            )
            stream = resources.stream() if is_queued else None
            arguments = [array.argument for array in arrays]
            status = compiled.run_nd(out.view.shape, arguments, out.argument, 0, stream)
            assert status == 0, last_error()
            ok(lib.gpuvec_stream_synchronize(stream))
            out.view[...] = self.expected([array.view for array in arrays])
            for array in (*arrays, out):
                array.check()


def square(n: int) -> int:
    """Returns the side of a square of about n elements, a multiple of 8."""
    return max(int(n**0.5) // 8 * 8, 8)


def images(n: int) -> list[Part]:
    """Returns images whose channels move from the second axis to the last, with a bias for each."""
    channels, side = 64, 32
    count = max(n // (channels * side * side), 1)
    shape = (count, channels, side, side)
    moved = (count, side, side, channels)
    return [(shape, lambda x: x.transpose(0, 2, 3, 1)), ((channels,), whole), (moved, whole)]


def heads(n: int) -> list[Part]:
    """Returns rows of heads, whose middle axes are exchanged."""
    batch, count, width = 4, 16, 64
    length = max(n // (batch * count * width), 1)
    shape = (batch, length, count, width)
    return [(shape, lambda x: x.transpose(0, 2, 1, 3)), ((batch, count, length, width), whole)]


def matrices(*others: Callable[[int], Part], width: int = 0) -> Callable[[int], list[Part]]:
    """Returns a matrix of that width or a square one, other parts, and a matrix for the result."""

    def parts(n: int) -> list[Part]:
        columns = width or square(n)
        shape = (max(n // columns, 1) if width else columns, columns)
        return [(shape, whole), *(other(columns) for other in others), (shape, whole)]

    return parts


def lines(part: Callable[[int], Part]) -> Callable[[int], list[Part]]:
    """Returns a part of a line, a line and a line for the result."""
    return lambda n: [part(n), ((n,), whole), ((n,), whole)]


CASES = [
    StridedCase("x + row", "a + b", matrices(lambda s: ((s,), whole))),
    StridedCase("x + column", "a + b", matrices(lambda s: ((s, 1), whole))),
    StridedCase(
        "x*row + column", "a*b + c", matrices(lambda s: ((s,), whole), lambda s: ((s, 1), whole))
    ),
    StridedCase(
        "outer",
        "a + b",
        lambda n: matrices(lambda s: ((s,), whole), lambda s: ((s, 1), whole))(n)[1:],
    ),
    StridedCase("x + row, odd length", "a + b", matrices(lambda s: ((s,), whole), width=4095)),
    StridedCase("(N, 3) + (3,)", "a + b", matrices(lambda s: ((s,), whole), width=3)),
    StridedCase("x[::2] + y", "a + b", lines(lambda n: ((2 * n,), lambda x: x[::2]))),
    StridedCase("x[::-1] + y", "a + b", lines(lambda n: ((n,), lambda x: x[::-1]))),
    StridedCase("field of records + y", "a + b", lines(lambda n: ((n, 4), lambda x: x[:, 1]))),
    StridedCase("y + x.T", "a + b", matrices(lambda s: ((s, s), np.transpose))),
    StridedCase(
        "y.T + x.T",
        "a + b",
        lambda n: [*[((square(n),) * 2, np.transpose)] * 2, ((square(n),) * 2, whole)],
    ),
    StridedCase("NCHW to NHWC + bias", "a + b", images),
    StridedCase("(b,s,h,d) to (b,h,s,d)", "a + 0", heads),
    StridedCase(
        "blocks of columns",
        "a + b",
        lambda n: [
            ((square(n), 2 * square(n)), part) for part in [left_half, right_half, left_half]
        ],
    ),
]


def left_half(x: np.ndarray) -> np.ndarray:
    """Returns the left half of a matrix."""
    return x[:, : x.shape[1] // 2]


def right_half(x: np.ndarray) -> np.ndarray:
    """Returns the right half of a matrix."""
    return x[:, x.shape[1] // 2 :]
