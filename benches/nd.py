"""Calls on arrays of several axes: reductions along axes, any strides, and whole programs.

The rate of a call is that of the bytes of the distinct elements that it reads and writes, as a
share of the rate of a copy of contiguous arrays. Calls on device arrays are queued on a stream.
"""

import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from calls import Library, library_path, package, suffix_of
from cases import address
from device import DeviceMemory, device_if_any
from harness import Call, Contender, Row, batch_of, measure
from peers import installed
from strided_cases import CASES, StridedCase

# The number of columns, and the axis that is reduced. The number of rows follows from the elements.
AXES = [(columns, axis) for columns in (16384, 64, 1 << 22, 512) for axis in (1, 0)]
AXES += [(3, 0), (4, 1)]
TORCH_NAMES = {"min": "amin", "max": "amax"}
# Elements of the arrays on which results are checked.
CHECKED = 1 << 20


class Place:
    """Float arrays in host or device memory, and the libraries that compute on them there."""

    def __init__(self, given: Namespace, kind: str) -> None:
        self.given, self.is_device = given, kind == "device"
        self.device = device_if_any()
        self.libraries = [Library(library_path())]
        self.libraries += [Library(path, suffix_of(path)) for path in given.against]
        names = ("CuPy", "PyTorch CUDA") if self.is_device else ("NumPy", "PyTorch CPU")
        self.peers, self.missing = installed(names)
        for library in self.libraries:
            library.set_placement("gpu" if self.is_device else "cpu")
        self.made: list[DeviceMemory] = []

    def array(self, values: np.ndarray) -> Any:
        """Copies contiguous values to the place."""
        if not self.is_device:
            return values
        self.device.enter()
        memory = self.device.memory(values.size, values.dtype)
        self.device.put(memory.address, values)
        self.made.append(memory)
        return memory

    def values(self, array: Any) -> np.ndarray:
        """Returns the values of an array."""
        if not self.is_device:
            return array
        found = np.empty(array.n, array.dtype)
        self.device.get(array.address, found)
        return found

    def free(self) -> None:
        """Frees the device memory."""
        for memory in self.made:
            self.device.free(memory)
        self.made = []

    def ours(self, *arguments: Any) -> Iterator[Contender]:
        """Returns calls of each build of gpuvec (`Library.nd_call`)."""
        for library in self.libraries:
            stream = library.stream() if self.is_device else None
            call = library.nd_call(*arguments, stream)
            wait = library.wait if self.is_device else lambda: None
            yield Contender(f"gpuvec{library.suffix}", batch_of(call, wait))

    def copy(self, n: int) -> Row:
        """Measures the copy of `n` floats: the driver's, and gpuvec's expression `a`."""
        source, to = (self.array(np.ones(n, np.float32)) for _ in range(2))
        library, strides = self.libraries[0], (4,)
        places = (address(source), strides), (address(to), strides)
        contenders = [*self.ours("a", {"a": places[0]}, (n,), places[1], 0)][:1]
        if self.is_device:
            arguments = (places[1][0], places[0][0], 4 * n, library.stream())
            copy = partial(library.functions.gpuvec_copy, *arguments)
            contenders.append(Contender("gpuvec_copy", batch_of(copy, library.wait)))
        row = measured(self.given, "copy, as an expression", contenders, 8 * n)
        self.free()
        return row


def measured(given: Namespace, what: str, contenders: list[Contender], moved: int) -> Row:
    """Makes a row, with the rate of gpuvec."""
    figures = measure(contenders, given.seconds * len(contenders), given.rounds)
    return {"what": what, "bytes": moved, "GB/s": moved / figures["us"]["gpuvec"] / 1e3, **figures}


def with_shares(rows: Iterator[Row]) -> Iterator[Row]:
    """Adds the share of the rate of the first row, which is a copy."""
    copy = 0.0
    for row in rows:
        copy = copy or row.get("GB/s", 0.0)
        if "us" in row:
            moved = row["bytes"] / 1e3 / copy
            row["of copy"] = {name: moved / us for name, us in row["us"].items()}
        yield row


def axes(given: Namespace) -> Iterator[Row]:
    """Measures reductions along one of two axes; checks them first, on smaller arrays."""
    for place in (Place(given, kind) for kind in given.kinds):
        yield {"missing": place.missing}
        for text in given.calls:
            yield from with_shares(axes_at(place, given, text))


def axes_at(place: Place, given: Namespace, text: str) -> Iterator[Row]:
    """Measures a reduction."""
    n = max(given.n)
    yield place.copy(n)
    for columns, axis in AXES:
        Reduction(place, text, min(CHECKED, n), columns, axis).check()
        place.free()
        reduction = Reduction(place, text, n, columns, axis)
        contenders = [*reduction.ours(), *reduction.theirs()]
        rows, columns = reduction.shape
        what = f"{rows} × {columns}, {'rows' if axis else 'columns'}"
        yield measured(given, what, contenders, reduction.x.nbytes)
        place.free()


class Reduction:
    """A reduction of a matrix in C order, along one of its axes."""

    def __init__(self, place: Place, text: str, n: int, most_columns: int, axis: int) -> None:
        columns = min(most_columns, max(n // 64, 3))
        self.shape = n // columns, columns
        self.place, self.text, self.axis = place, text, axis
        rng = np.random.default_rng(1)
        # Not a power of two, after which each column would have the same element in all rows.
        part = rng.normal(0, 1, (1 << 20) + 7)
        if place.given.suite.endswith("unlike"):
            part = np.ldexp(part, rng.integers(-120, 110, part.size))
        self.x = np.resize(part.astype(np.float32), self.shape)
        self.array = place.array(self.x)
        self.out = place.array(np.full(self.shape[1 - axis], 7, np.float64))

    def ours(self) -> Iterator[Contender]:
        """Returns gpuvec's calls."""
        x, out = (address(self.array), self.x.strides), (address(self.out), self.strides())
        return self.place.ours(self.text, {"x": x}, self.shape, out, 1 << self.axis)

    def strides(self) -> tuple[int, int]:
        """Returns the strides of the results: integers of 64 bits, or floats."""
        item = 8 if self.text.startswith(("arg", "count")) else 4
        return (0, item) if self.axis == 0 else (item, 0)

    def theirs(self) -> Iterator[Contender]:
        """Returns the calls of the libraries that have the reduction."""
        name = re.fullmatch(r"(\w+)\(x\)", self.text)
        for peer in self.place.peers if name else ():
            names = TORCH_NAMES if "PyTorch" in peer.name else {}
            function = getattr(peer.library, names.get(name[1], name[1]))
            x = peer.array(self.array).reshape(self.shape)
            wait = peer.wait if peer.on_gpu else lambda: None
            yield Contender(peer.name, batch_of(partial(function, x, self.axis), wait))

    def check(self) -> None:
        """Fails unless the results are those of cores."""
        library = self.place.libraries[0]
        for contender in self.ours():
            contender.batch(1)
            found = self.place.values(self.out)
            wanted = np.full_like(found, 7)
            x, out = (self.x.ctypes.data, self.x.strides), (wanted.ctypes.data, self.strides())
            library.set_placement("cpu")
            library.nd_call(self.text, {"x": x}, self.shape, out, 1 << self.axis, None)()
            library.set_placement("gpu" if self.place.is_device else "cpu")
            assert found.tobytes() == wanted.tobytes(), f"{contender.name}: other results"


def strides(given: Namespace) -> Iterator[Row]:
    """Measures formulas on arrays of any strides; checks them first, on smaller arrays."""
    for place in (Place(given, kind) for kind in given.kinds):
        yield {"missing": place.missing}
        yield from with_shares(strides_at(place, given))


def strides_at(place: Place, given: Namespace) -> Iterator[Row]:
    """Measures the formulas of the tests."""
    n = max(given.n)
    yield place.copy(n)
    for case in CASES:
        kinds = ["device" if place.is_device else "pageable"] * 4
        case.check(kinds, min(70_000, n), place.is_device)
        pairs = case.views(n)
        parents = [place.array(np.ones(parent.shape, np.float32).ravel()) for parent, _ in pairs]
        views = [
            (address(at) + view.ctypes.data - parent.ctypes.data, view.strides)
            for at, (parent, view) in zip(parents, pairs)
        ]
        shape = pairs[-1][1].shape
        arrays = dict(zip(case.inputs(), views))
        contenders = [*place.ours(case.text, arrays, shape, views[-1], 0)]
        contenders += eager_calls(place, case, parents, pairs)
        yield measured(given, case.name, contenders, sum(distinct_bytes(view) for _, view in pairs))
        place.free()


def distinct_bytes(view: np.ndarray) -> int:
    """Returns the bytes of a view's elements, each counted once."""
    axes = zip(view.shape, view.strides)
    return int(np.prod([length for length, stride in axes if stride])) * view.itemsize


def eager_calls(
    place: Place, case: StridedCase, parents: list[Any], pairs: list[list[np.ndarray]]
) -> Iterator[Contender]:
    """Returns the libraries' own ways to compute a case."""
    for peer in place.peers:
        is_torch = "PyTorch" in peer.name
        tricks = peer.library if is_torch else peer.library.lib.stride_tricks
        if is_torch and any(stride < 0 for _, view in pairs for stride in view.strides):
            continue
        views = []
        for at, (parent, view) in zip(parents, pairs):
            flat = peer.array(at)
            start = (view.ctypes.data - parent.ctypes.data) // 4
            steps = [stride // 4 for stride in view.strides] if is_torch else view.strides
            views.append(tricks.as_strided(flat[start:], view.shape, steps))
        *inputs, out = views
        names = dict(zip(case.inputs(), inputs))
        code = compile(case.text.replace(" + 0", ""), case.text, "eval")
        wait = peer.wait if peer.on_gpu else lambda: None

        def call(names: dict = names, code: Any = code, out: Any = out) -> None:
            out[...] = eval(code, {}, names)

        if case.text == "a + b":
            call = partial(peer.library.add, *inputs, out=out)
        yield Contender(peer.name, batch_of(call, wait))


class Task(NamedTuple):
    """A program: its arrays, by names, and how gpuvec, a library of arrays and numexpr do it."""

    name: str
    arrays: dict[str, np.ndarray]
    ours: Callable
    eager: Callable
    numexpr: str = ""


def programs(given: Namespace) -> Iterator[Row]:
    """Measures programs on arrays in host memory, and in device memory if there is a GPU."""
    gpuvec = package()
    peers, missing = installed(["numexpr", "CuPy", "PyTorch CUDA"])
    yield {"missing": missing}
    for task in tasks(gpuvec):
        calls = {
            "gpuvec": partial(task.ours, **task.arrays),
            "NumPy": partial(task.eager, np, **task.arrays),
        }
        for peer in peers if task.numexpr else ():
            if not peer.on_gpu:
                calls[peer.name] = partial(peer.library.evaluate, task.numexpr, dict(task.arrays))
        yield timed(given, f"{task.name}, host", calls)
        if device_if_any():
            yield timed(given, f"{task.name}, device", **on_device(gpuvec, task, peers))
    for size in (1 << power for power in (12, 16, 20, 26, 28, 30) if device_if_any()):
        new = {"gpuvec": partial(gpuvec.DeviceArray, size, np.uint8)}
        yield timed(given, f"new device memory, {size:,} bytes", new)


def timed(given: Namespace, what: str, calls: dict[str, Call], wait: Call = lambda: None) -> Row:
    """Measures calls that are each waited for; gpuvec may refuse one."""
    contenders = []
    for name, call in calls.items():
        waited = lambda call=call: (call(), wait())  # noqa: E731
        try:
            waited()
            contenders.append(Contender(name, batch_of(waited)))
        except Exception as error:
            print(f"failed: {what}: {name}: {error}", file=sys.stderr)
    return {"what": what, **measure(contenders, given.seconds * len(contenders), given.rounds)}


def on_device(gpuvec: ModuleType, task: Task, peers: list[Any]) -> dict[str, Any]:
    """Returns gpuvec's calls on its own arrays and on other libraries', the libraries', a wait."""
    own = {name: gpuvec.to_device(array) for name, array in task.arrays.items()}
    found: dict[str, Any] = {"calls": {"gpuvec": partial(task.ours, **own)}}
    for peer in peers:
        if peer.on_gpu:
            theirs = {name: peer.array(array) for name, array in task.arrays.items()}
            found["calls"][f"gpuvec on {peer.name}"] = partial(task.ours, **theirs)
            found["calls"][peer.name] = partial(task.eager, peer.library, **theirs)
            found["wait"] = peer.wait
    return found


def moved(x: Any) -> Any:
    """Returns a view with the axis of channels at the end."""
    return x.permute(0, 2, 3, 1) if hasattr(x, "permute") else x.transpose(0, 2, 3, 1)


def tasks(gpuvec: ModuleType) -> Iterator[Task]:
    """Makes the programs of the how-to."""
    rng, evaluate = np.random.default_rng(1), gpuvec.evaluate

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32)

    def standardise(x: Any) -> Any:
        mean = evaluate("mean(x)", x=x, axis=0)
        variance = evaluate("mean((x - m) * (x - m))", x=x, m=mean, axis=0)
        return evaluate("(x - m) / sqrt(v)", x=x, m=mean, v=variance)

    def standardise_eagerly(xp: Any, x: Any) -> Any:
        centered = x - x.mean(0)
        return centered / xp.sqrt((centered * centered).mean(0))

    def distances(p: Any) -> Any:
        return evaluate("sum((a - b) * (a - b))", a=p[:, None, :], b=p[None], axis=-1)

    def stencil(u: Any, v: Any) -> Any:
        north, south, west, east = u[:-2, 1:-1], u[2:, 1:-1], u[1:-1, :-2], u[1:-1, 2:]
        neighbours = {"n": north, "s": south, "w": west, "e": east}
        return evaluate("0.25 * (n + s + w + e)", neighbours, out=v[1:-1, 1:-1])

    def stencil_eagerly(_: Any, u: Any, v: Any) -> None:
        v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])

    def channels_last(x: Any, bias: Any, out: Any) -> Any:
        return evaluate("x + bias", x=moved(x), bias=bias, out=out)

    def channels_last_eagerly(_: Any, x: Any, bias: Any, out: Any) -> None:
        out[...] = moved(x) + bias

    columns, u, rows = normal(1_000_000, 16), normal(4096, 4096), normal(16384, 4096)
    yield Task("standardise 1,000,000 × 16", {"x": columns}, standardise, standardise_eagerly)
    eager = lambda _, p: ((p[:, None, :] - p[None]) ** 2).sum(-1)  # noqa: E731
    yield Task("distances of 2,000 points", {"p": normal(2000, 16)}, distances, eager)
    yield Task("stencil, 4096 × 4096", {"u": u, "v": u.copy()}, stencil, stencil_eagerly)
    images, last = normal(32, 64, 56, 56), np.empty((32, 56, 56, 64), np.float32)
    arrays = {"x": images, "bias": normal(64), "out": last}
    yield Task("NCHW to NHWC + bias", arrays, channels_last, channels_last_eagerly)
    for axis, what in ((1, "sums of 16,384 rows"), (0, "sums of 4,096 columns")):
        ours = partial(evaluate, "sum(x)", axis=axis)
        eager = lambda _, x, axis=axis: x.sum(axis)  # noqa: E731
        yield Task(what, {"x": rows}, ours, eager, f"sum(x, axis={axis})")
