"""Uses of the package that `make lint` checks: the wrong ones are errors of their types.

A line that ignores an error which does not occur fails the check as well.
"""

import array
import mmap
from typing import Any

import gpuvec
import numpy as np

a = np.ones(3, np.float32)
device: gpuvec.DeviceArray = gpuvec.to_device(a)
gpuvec.add(a, device, out=a, stream=gpuvec.Stream())
gpuvec.add(bytes(12), a, out=bytearray(12))
gpuvec.add(array.array("f"), mmap.mmap(-1, 12))
gpuvec.axpy(np.float32(2), a, a)
gpuvec.sum(device, out=gpuvec.pinned_zeros(()))
gpuvec.max(device.T[1:, ::-1].reshape(3, -1), axis=(0, -1), keepdims=True)
gpuvec.dot(a, a, axis=0)
halves: gpuvec.DeviceArray = device.copy().astype(np.float64)[1:]
halves.fill(0.5)
halves *= 2 - halves**2 / a
halves[:1] = ~(device > a) & (device != 1)
gpuvec.from_dlpack(np.from_dlpack(device))
total = gpuvec.Accumulator("dot", np.float32)
total.add(a, bytes(12))
total += gpuvec.Accumulator.from_words(2 * total.to_words())
gpuvec.Accumulator.from_bytes(bytearray(total.to_bytes())).merge(total)
columns = gpuvec.Accumulator("sum", np.float64, shape=[2, 3])
columns.add(np.ones((2, 4, 3)), axis=(-2,))
gpuvec.Accumulator.from_bytes(columns.to_bytes(), columns.shape)
gpuvec.Accumulator("sum", "f4", 3).add(device, axis=0)
with gpuvec.placement("gpu"), gpuvec.pinned(a) as pinned:
    pinned[:] = 1
gpuvec.set_num_threads(gpuvec.get_num_threads())
gpuvec.set_device(gpuvec.get_device())
freed: int = gpuvec.trim() + gpuvec.memory(0).pinned + gpuvec.memory().modules

gpuvec.add([1.0], a)  # type: ignore[arg-type]
gpuvec.add(a, a, stream=1)  # type: ignore[arg-type]
gpuvec.sum(a, axis=1.5)  # type: ignore[arg-type]
gpuvec.scale("2", a)  # type: ignore[arg-type]
total.add([1.0], a)  # type: ignore[arg-type]
total.merge(1)  # type: ignore[arg-type]
total.add(a, a, axis=0.5)  # type: ignore[arg-type]
gpuvec.Accumulator("sum", "f4", shape=1.5)  # type: ignore[arg-type]
gpuvec.set_placement("GPU")  # type: ignore[arg-type]
gpuvec.set_num_threads(1.5)  # type: ignore[arg-type]
gpuvec.set_device("0")  # type: ignore[arg-type]
gpuvec.to_device(1.0)  # type: ignore[arg-type]

gpuvec.evaluate("x*k + y", x=a, y=device, k=2.5, out=a, stream=gpuvec.Stream())
scaled = gpuvec.Expression("k * x", x=np.float32, k=gpuvec.Scalar("f4"))
scaled(x=bytes(12), k=np.float32(2))
scaled({"x": device, "k": 2}, out=a)
gpuvec.evaluate("x + out", {"x": a, "out": device}, out=a)
gpuvec.Expression("x + self", {"x": np.float32, "self": float})
gpuvec.evaluate(("x", "sum(x)"), x=a, out=(a, None))
gpuvec.Expression(("x", "x + 1"), x="f4").dtypes[0].itemsize  # noqa: B018
gpuvec.evaluate("sum(x)", x=a, axis=0, keepdims=True)
scaled(x=a, k=1, axis=None)
gpuvec.evaluate(["x", "y"], x=a)  # type: ignore[arg-type]
gpuvec.evaluate(b"x", x=a)  # type: ignore[arg-type]
gpuvec.evaluate("x", x=[1.0])  # type: ignore[arg-type]
gpuvec.evaluate("x", [a])  # type: ignore[arg-type]


class Column:
    """What pandas, polars, xarray and pyarrow declare of a column, and of a table's."""

    columns = ("x",)

    def to_numpy(self, dtype: Any = None) -> np.ndarray[Any, Any]:
        """Return the elements."""
        return np.ones(3)

    def __getitem__(self, name: str) -> "Column":
        """Return a column."""
        return self


column = Column()
gpuvec.evaluate("x + 1", column, na=0)
gpuvec.evaluate("x + y", {"x": column}, y=a)
scaled(column, k=1, na=np.float32(2))
gpuvec.sum(gpuvec.add(column, column))

# Reductions by key.
gpuvec.sum(a, by=a, groups=3)
gpuvec.var(a, ddof=1, by=gpuvec.group(["x", "y"]), outside="ignore")
gpuvec.evaluate("sum(x)", x=a, by="i64(x)")
gpuvec.group(column).codes.tolist()
gpuvec.sum(a, by=3.5)  # type: ignore[arg-type]
gpuvec.sum(a, by=a, groups="3")  # type: ignore[arg-type]
