"""Random calls whose arguments run code that changes other arguments: a program.

The caller's code is an argument's ``__dlpack__``, its properties, and the ``__index__`` of an axis.
It may give NumPy's arrays another shape, type or memory while a call reads its arguments. A call
may then use the old or the new state of each array, or raise an error; it must neither crash nor
return anything else.
"""

import gc
import random
import sys
import warnings
from itertools import product

import gpuvec
import numpy as np
from c_exchange import library

# NumPy's newest versions advise against setting shapes.
warnings.simplefilter("ignore", DeprecationWarning)

# The numbers of elements; the last is more than small blocks of memory hold.
SIZES = (0, 1, 4, 6, 12, 60, 5000)
TYPES = (np.float32, np.float64)


class World:
    """The arrays that arguments may use, with all states that they had since the call began."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        size, dtype = rng.choice(SIZES), rng.choice(TYPES)
        self.arrays = {name: self.new(size, dtype) for name in ("a", "b", "out")}
        if rng.random() < 0.5:
            shape = rng.choice(shapes(size))
            # Not views, under which other arrays might change.
            self.arrays = {
                name: np.array(array.reshape(shape), order=rng.choice("CF"))
                for name, array in self.arrays.items()
            }
        self.states = {name: [array.copy()] for name, array in self.arrays.items()}
        self.garbage: list = []
        # The arrays of exporters, which keep their memory as long as anything uses it.
        self.exported: set[str] = set()
        self.most_changes = rng.randrange(4)

    def new(self, size: int, dtype: type) -> np.ndarray:
        """Makes an array of small integers, whose sums are exact."""
        return np.array([self.rng.randrange(-9, 9) for _ in range(size)], dtype)

    def change(self, ways=None) -> None:
        """Changes one of the arrays that are arguments themselves."""
        names = [name for name in self.arrays if name not in self.exported]
        if not self.most_changes or not names:
            return
        self.most_changes -= 1
        name = self.rng.choice(names)
        array = self.arrays[name]
        try:
            self.rng.choice(ways or (*KEEPING, resize, set_state))(self, array)
        except (ValueError, AttributeError):
            # NumPy refuses it, as to resize an array that something else refers to.
            pass
        self.states[name].append(array.copy())
        # Memory that was freed has other content, if something still reads it.
        self.garbage.append([np.full(array.size, 77, array.dtype) for _ in range(4)])
        if self.rng.random() < 0.1:
            gc.collect()


def shapes(size: int) -> list[tuple[int, ...]]:
    """Returns shapes that have that many elements."""
    pairs = [(rows, size // rows) for rows in (1, 2, 3) if size % rows == 0]
    return [(size,), *pairs, (1, *pairs[-1], 1), (1,) * 7 + (size,)]


def reshape(world: World, array: np.ndarray) -> None:
    """Sets a shape, which frees the old one."""
    array.shape = world.rng.choice(shapes(array.size))


def resize(world: World, array: np.ndarray) -> None:
    """Frees the elements, or moves them."""
    if not array.flags.writeable:
        # NumPy would leave new elements as the memory is, and their sums would not be exact.
        raise ValueError
    array.resize(world.rng.choice(SIZES), refcheck=world.rng.random() < 0.3)


def retype(world: World, array: np.ndarray) -> None:
    """Sets a type, of more or fewer bytes or of none that an operation takes."""
    array.dtype = world.rng.choice((np.float32, np.float64, np.int32, "V4"))


def set_state(world: World, array: np.ndarray) -> None:
    """Replaces everything, as `pickle` and `copy` do it."""
    other = world.new(world.rng.choice(SIZES), world.rng.choice(TYPES))
    array.__setstate__(other.__reduce__()[2])


def protect(world: World, array: np.ndarray) -> None:
    """Makes the array read-only."""
    array.flags.writeable = False


def refill(world: World, array: np.ndarray) -> None:
    """Writes other elements."""
    array[...] = array.dtype.type(world.rng.randrange(9))


# The changes that leave the elements where they are.
KEEPING = reshape, retype, protect, refill


class Finalizer:
    """Garbage that changes arrays when the collector finds it, at any allocation of a call.

    It frees no elements: a call that runs Python code, as those on streams do, relies on NumPy's
    advice for that.
    """

    def __init__(self, world: World) -> None:
        self.world, self.cycle = world, self

    def __del__(self) -> None:
        """Change an array."""
        self.world.change(KEEPING)


def exporter(world: World, name: str):
    """Makes an argument that has the elements of an array, and changes others when it is asked."""
    array, change = world.arrays[name], world.change
    world.exported.add(name)

    class ByDLPack:
        def __dlpack_device__(self):
            change()
            return (1, 0)

        def __dlpack__(self, **keywords):
            capsule = array.__dlpack__(**keywords)
            change()
            return capsule

    class ByInterface:
        @property
        def __cuda_array_interface__(self):
            change()
            return array.__array_interface__

    class WithProperties(ByDLPack):
        @property
        def dtype(self):
            change()
            return array.dtype

        @property
        def __class__(self):
            change()
            return ByDLPack

        def __getattr__(self, wanted):
            change()
            raise AttributeError(wanted)

    class ByBuffer:
        def __buffer__(self, flags):
            change()
            return memoryview(array)

    by_functions = library()
    kinds = [ByDLPack, ByInterface, WithProperties, lambda: by_functions(ByDLPack())]
    # Older versions of Python have buffers of C's types alone.
    return world.rng.choice([*kinds, *[ByBuffer] * (sys.version_info >= (3, 12))])()


class Number(float):
    """A number whose conversion runs code."""

    def __float__(self):
        """Return the number."""
        self.change()
        return 2.0


class Index:
    """An axis that runs code."""

    def __init__(self, change) -> None:
        self.change = change

    def __index__(self):
        """Return the first axis."""
        self.change()
        return 0


def number(world: World) -> Number:
    """Makes a number that is 2."""
    made = Number(2.0)
    made.change = world.change
    return made


EXPRESSION = gpuvec.Expression("a + k*b", a="f4", b="f4", k=gpuvec.Scalar("f4"))

# A call of each kind, with what it computes. Its arguments are arrays, or exporters of them.
CALLS = {
    "add": (lambda _, a, b, out: gpuvec.add(a, b, out), lambda a, b: a + b),
    "new": (lambda _, a, b, out: gpuvec.add(a, b), lambda a, b: a + b),
    "axpy": (
        lambda world, a, b, out: gpuvec.axpy(number(world), a, b, out),
        lambda a, b: 2 * a + b,
    ),
    "sum": (lambda _, a, b, out: gpuvec.sum(a), lambda a, b: a.sum()),
    "dot": (lambda _, a, b, out: gpuvec.dot(a, b), lambda a, b: dot(a, b)),
    "along": (
        lambda world, a, b, out: gpuvec.sum(a, axis=Index(world.change)),
        lambda a, b: a.sum(axis=0),
    ),
    "evaluate": (
        lambda _, a, b, out: gpuvec.evaluate("a*b + 1", a=a, b=b, out=out),
        lambda a, b: a * b + 1,
    ),
    "several": (
        lambda _, a, b, out: gpuvec.evaluate("a*b; a", a=a, b=b, out=(out, None))[0],
        lambda a, b: a * b,
    ),
    "expression": (
        lambda world, a, b, out: EXPRESSION(a=a, b=b, k=number(world), out=out),
        lambda a, b: a + 2 * b,
    ),
    "sub": (lambda _, a, b, out: gpuvec.sub(a, b), lambda a, b: a - b),
    "accumulator": (
        lambda _, a, b, out: accumulated(a, b),
        lambda a, b: a.sum() + b.sum(),
    ),
    "copy": (lambda _, a, b, out: copied(out, a), lambda a, b: a + 0),
    "queued": (lambda _, a, b, out: on_stream(a, b, out), lambda a, b: a + b),
}


def dot(a, b):
    """Computes the dot product of arrays of one axis."""
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError
    return a @ b


def accumulated(a, b):
    """Adds two arrays to an accumulator."""
    total = gpuvec.Accumulator("sum", getattr(a, "dtype", np.float32))
    total.add(a)
    total.add(b)
    return total.value()


def copied(out, a):
    """Copies an array."""
    gpuvec.copy(out, a)
    return out


def on_stream(a, b, out):
    """Adds arrays on a stream."""
    with gpuvec.Stream() as stream:
        return gpuvec.add(a, b, out, stream=stream)


def one_call(seed: int) -> str:
    """Makes a random call; returns what came of it."""
    world = World(random.Random(seed))
    name = world.rng.choice(list(CALLS))
    call, oracle = CALLS[name]
    arguments = {}
    for one in world.arrays:
        is_plain = world.rng.random() < 0.5
        arguments[one] = world.arrays[one] if is_plain else exporter(world, one)
    if world.rng.random() < 0.3:
        Finalizer(world)
        gc.set_threshold(world.rng.randrange(1, 30))
    try:
        result = call(world, **arguments)
    except (gpuvec.Error, TypeError, ValueError, OverflowError, MemoryError, AttributeError):
        return "error"
    finally:
        gc.set_threshold(700)
    is_given = result is arguments["out"]
    result = world.arrays["out"] if is_given else result
    found = np.asarray(result.to_host() if isinstance(result, gpuvec.DeviceArray) else result)
    for a, b in product(world.states["a"], world.states["b"]):
        try:
            wanted = oracle(a, b)
        except (TypeError, ValueError, np.exceptions.AxisError):
            continue
        if is_given and np.size(wanted) == 1:
            # Results are broadcast to an output.
            wanted = np.full(found.shape, np.ravel(wanted)[0])
        # An output that was given may have another shape since.
        is_shaped = is_given or found.shape == wanted.shape
        if is_shaped and np.array_equal(found.ravel(), np.ravel(wanted)):
            return "result"
    raise AssertionError(f"seed {seed}: {name} returned {found!r} of {world.states}")


def main(seed: int, count: int) -> None:
    """Makes that many calls."""
    outcomes = [one_call(number) for number in range(seed, seed + count)]
    print({one: outcomes.count(one) for one in ("result", "error")})


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        main(int(sys.argv[1]), int(sys.argv[2]))
