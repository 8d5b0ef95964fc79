"""The calls that run under compute-sanitizer: every kernel, on every path, alone and on streams.

    python3 tools/sanitized.py [--short [--sample]]

Each result is compared with the tests' oracles, or with the cores' result of an expression, and the
memory around it with its earlier content, so that a pass means right results as well. Sizes are
small, and lie around the widths of vectors, blocks and chunks: under a sanitizer a call takes many
times as long. Option --short, for the fake driver, whose GPUs are emulated, leaves out the longest
calls, and --sample four of five long reductions along axes.
"""

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Optional

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
from accumulators import Sums
from arrays import call_at
from axes_cases import REDUCTIONS, SPREADS, bits, filled_arrays, result_in_memory, result_of
from bindings import Backend, PathBit, Place, last_run, lib, placed, why_cpu
from corpus import KINDS as SUMS
from formulas import FORMULAS, Compiled, values
from functions import OF_ONE, OF_TWO
from operations import FAMILY, Operation, named
from streams import KINDS, QUEUED_KINDS, Chain, Resources, ok
from strided_cases import CASES as STRIDED_CASES
from surrounded import Surrounded

# Each array's memory, and its offset there in elements.
Layout = tuple[tuple[str, int], ...]

IS_SHORT, IS_SAMPLE = "--short" in sys.argv[1:], "--sample" in sys.argv[1:]

# A kind of memory for each path, in all arrays of a call.
ALIKE = ["pageable", "pinned", "registered", "managed", "device"]
# Kernels access packs of elements only if all arrays have the same offset from a pack.
TOGETHER, APART = (1, 1, 1), (0, 1, 3)
MIXED: list[Layout] = [
    (("pageable", 1), ("device", 0), ("pinned", 3)),
    (("device", 5), ("managed", 0), ("pageable", 0)),
    (("foreign pinned", 0), ("pageable", 7), ("device", 1)),
    (("managed", 3), ("registered", 1), ("foreign device", 5)),
]
LAYOUTS = [
    tuple((kind, past) for past in offsets) for kind in ALIKE for offsets in (TOGETHER, APART)
]
QUEUED: list[Layout] = [
    (("device", 0),) * 3,
    (("device", 1), ("pinned", 0), ("managed", 3)),
    (("registered", 3), ("foreign device", 1), ("foreign pinned", 0)),
]

# Around packs of elements, runs of a warp, and blocks of threads.
SIZES = [1, 2, 5, 31, 127, 129, 1023, 4095, 4096, 4097, 12_301]
# Chunks that cross the bus by DMA, several of them; an operation of each shape and size of element.
LARGE = 4_200_011
LARGE_OPERATIONS = ["add_i32", "axpy_f64", "dot_f32", "sum_i64"]
# More elements than all warps of a reduction take at once.
SEVERAL_TURNS = 528 * 8 * 4096 + 4097
OF_SEVERAL_TURNS = ["sum_f32", "sum_f64", "sum_i32"]
# Elements of arrays of any strides: of one block and of several.
STRIDED_SIZES = [4100, 65_536, 300_000]
# Short rows, many of them: the longest array.
OF_WARPS = ((900_001, 4), 1)
# Bytes, and the offsets of source and target in their memory.
COPIES = [(1, 0, 3), (4099, 5, 1), (70_001, 0, 0)]

# Every function of floats, and every exact sum.
OF_FLOATS = [f"{function}(a)" for function in OF_ONE]
OF_FLOATS += [f"{function}(a, b)" for function in OF_TWO]
OF_FLOATS += ["a // b + a % b", "sum(a*b)", "mean(a)", "norm(a)", "dot(a, b)"]

PATHS = {PathBit.STAGED, PathBit.MAPPED, PathBit.DMA, PathBit.RESIDENT}
# The paths that calls took.
taken: set[PathBit] = set()


def check(
    layout: Layout, values: Sequence, expected: np.ndarray, call: Callable[..., None]
) -> None:
    """Makes a call on arrays; fails unless it writes the right result and nothing else."""
    with Resources() as resources:
        *inputs, out = (
            Surrounded(resources, *place, content)
            for place, content in zip(layout, (*values, np.zeros_like(expected)))
        )
        call(*(array.address for array in (*inputs, out)))
        out.check(expected)
        for array, unchanged in zip(inputs, values):
            array.check(unchanged)


def operate(operation: Operation, n: int, layout: Layout, stream: Optional[int] = None) -> None:
    """Makes one call of an operation, alone or queued."""
    values = operation.data(np.random.default_rng(n), n)

    def call(*addresses: int) -> None:
        ok(call_at(operation, *addresses, n, stream=stream))
        taken.update(bit for bit in PathBit if last_run().path & bit)
        ok(lib.gpuvec_stream_synchronize(stream))

    check(layout, values, operation.oracle(*values), call)


def every_kernel() -> Iterator[None]:
    """Calls each operation on each layout of arrays, and queues it; the sizes take turns.

    Reductions that are queued end on the device.
    """
    sizes = itertools.cycle(SIZES)
    with Resources() as resources:
        stream = resources.stream()
        calls = itertools.product(FAMILY, [(layout, None) for layout in LAYOUTS + MIXED])
        queued = itertools.product(FAMILY, [(layout, stream) for layout in QUEUED])
        for operation, (layout, where) in itertools.chain(calls, queued):
            yield operate(operation, next(sizes), layout, where)


def evaluate(text: str, inputs: dict[str, str], n: int, layout: Layout) -> None:
    """Evaluates an expression on the GPU, whose result has the cores' bits."""
    random = np.random.default_rng(n)
    data = [values(random, np.dtype(dtype), n) for dtype in inputs.values()]
    with Compiled(text, inputs) as compiled:
        expected = np.empty(1 if compiled.is_reduction() else n, compiled.dtype())
        lib.gpuvec_set_placement(Place.CPU)
        ok(compiled.run([array.ctypes.data for array in data], expected.ctypes.data, n))
        lib.gpuvec_set_placement(Place.GPU)
        check(layout, data, expected, lambda *at: ok(compiled.run([*at[:-1]], at[-1], n)))


def expressions() -> Iterator[None]:
    """Evaluates expressions of every function and reduction; the sizes take turns."""
    sizes = itertools.cycle(SIZES)
    formulas = [(formula.text, formula.inputs) for formula in FORMULAS]
    for dtype in ("f4", "f8"):
        names = ({"a": dtype, "b": dtype} if "b" in text else {"a": dtype} for text in OF_FLOATS)
        formulas += zip(OF_FLOATS, names)
    layouts = [(("device", 0),) * 3, (("device", 1),) * 3, MIXED[0]]
    for (text, inputs), layout in itertools.product(formulas, layouts):
        yield evaluate(text, inputs, next(sizes), layout)


def strided_arrays() -> Iterator[None]:
    """Evaluates expressions on arrays of any strides, in place, staged and on streams."""
    layouts = [["device"] * 4, ["pageable"] * 4, ["device", "pageable", "pinned", "managed"]]
    for case, kinds, n in itertools.product(STRIDED_CASES, layouts, STRIDED_SIZES):
        yield case.check(kinds, n)
    for case in STRIDED_CASES:
        yield case.check(["device"] * 4, STRIDED_SIZES[0], is_queued=True)


def axes() -> Iterator[None]:
    """Reduces arrays along axes: rows, columns and few of both, alone, tile by tile, on streams.

    In the last shapes a warp of a GPU computes results of its own, if they are in device memory.
    In the shapes for sums alone, several warps of a block compute one.
    """
    layouts = [("device",) * 3, ("pageable",) * 3, ("pageable", "pinned", "device")]
    shapes = [((3, 5000), 1), ((700, 3), 0), ((33, 65), 1), ((200, 70), 0), ((2, 300_000), 1)]
    shapes += [((7, 110_001), 0)] if IS_SHORT else [OF_WARPS, ((7, 110_001), 0)]
    cases = [
        (reduction, shape, kinds)
        for reduction, shape, kinds in itertools.product(REDUCTIONS, shapes, layouts)
        # The host computes these reductions from states, which are gigabytes for the longest array.
        if shape != OF_WARPS or reduction.name not in SPREADS or "f" in str(reduction.inputs)
    ]
    sums = [reduction for reduction in REDUCTIONS if str(reduction) in ("sum(x)-f4", "mean(x)-f4")]
    cases += itertools.product(sums, [((200, 8_400), 0), ((150, 10_200), 0)], layouts)
    if IS_SAMPLE:
        # A reduction has 18 cases: with this step, all of them occur, of one reduction or another.
        cases = [case for n, case in enumerate(cases) if np.prod(case[1][0]) < 50_000 or n % 5 == 0]
    for number, (reduction, (shape, axis), kinds) in enumerate(cases):
        arrays = filled_arrays(np.random.default_rng(number), reduction, shape)
        with placed(Place.CPU):
            wanted = result_of(reduction, arrays, (axis,))
        with Resources() as resources:
            is_queued = number % 2 and "pageable" not in kinds
            stream = resources.stream() if is_queued else None
            got = result_in_memory(resources, reduction, arrays, axis, stream, kinds)
            assert got.tobytes() == wanted.tobytes(), str(reduction)
            yield


def accumulators() -> Iterator[None]:
    """Adds arrays along axes to accumulators: kernels store states, of one tile and of several."""
    layouts = [("device",) * 2, ("pageable", "device"), ("managed", "pageable")]
    shapes = [((3, 5000), 1), ((700, 3), 0), ((2, 300_000), 1), ((2001, 81), 1), ((81, 2001), 0)]
    for kind, (shape, axis), kinds in itertools.product(SUMS, shapes, layouts):
        random = np.random.default_rng(shape)
        arrays = [random.standard_normal(shape).astype(kind.dtype) for _ in range(1 + kind.is_dot)]
        sums, wanted = (Sums(kind, (shape[1 - axis],)) for _ in range(2))
        with sums, wanted, Resources() as resources:
            with placed(Place.CPU):
                wanted.add_along(arrays, (axis,))
            memories = [resources.array(of, array) for of, array in zip(kinds, arrays)]
            ok(sums.add(shape, [memory.address for memory in memories], bits((axis,))))
            assert last_run().backend == Backend.GPU
            assert sums.state() == wanted.state(), f"{kind} {shape} along {axis}"
            yield


def large_arrays() -> Iterator[None]:
    """Runs calls of several slots, and sums for which a GPU's warps take several turns."""
    layouts = [LAYOUTS[0], tuple(("pinned", past) for past in APART), MIXED[0]]
    for name, layout in itertools.product(LARGE_OPERATIONS, layouts):
        yield operate(named(f"gpuvec_{name}"), LARGE, layout)
    with Resources() as resources:
        stream = resources.stream()
        for name in OF_SEVERAL_TURNS:
            yield operate(named(f"gpuvec_{name}"), SEVERAL_TURNS, QUEUED[0], stream)


def copies() -> Iterator[None]:
    """Copies between all kinds of memory, without and with a stream; the lengths take turns."""
    lengths = itertools.cycle(COPIES)
    kinds = [kind for kind in KINDS if kind != "other device"]
    with Resources() as resources:
        streams = [None, resources.stream()]
        for source, to, stream in itertools.product(kinds, kinds, streams):
            bytes_, start, end = next(lengths)
            values = np.random.default_rng(bytes_).integers(0, 256, bytes_, np.uint8)

            def copy(at: int, out: int, size: int = bytes_, stream: Optional[int] = stream) -> None:
                ok(lib.gpuvec_copy(out, at, size, stream))
                ok(lib.gpuvec_stream_synchronize(stream))

            yield check(((source, start), (to, end)), [values], values, copy)


def chains() -> Iterator[None]:
    """Queues work on two streams alternately, ordered by events."""
    rounds, steps = 4, 3
    for kind in QUEUED_KINDS:
        with Resources() as resources:
            streams = [resources.stream() for _ in range(2)]
            chain, event = Chain(resources, kind, 4099), resources.event()
            for number in range(rounds):
                here, other = streams[number % 2], streams[1 - number % 2]
                chain.queue(steps, here)
                ok(lib.gpuvec_event_record(event, here))
                ok(lib.gpuvec_stream_wait(other, event))
            chain.queue_copy(streams[rounds % 2])
            ok(lib.gpuvec_stream_synchronize(streams[rounds % 2]))
            yield chain.check()


def main() -> None:
    """Runs everything on the GPU; exits 1 if a call fails, or a bit is wrong."""
    lib.gpuvec_set_placement(Place.GPU)
    if why_cpu():
        sys.exit(why_cpu())
    parts = (every_kernel, expressions, strided_arrays, axes, accumulators)
    for part in (*parts, large_arrays, copies, chains):
        print(f"{part.__name__}: {sum(1 for _ in part())} checked", flush=True)
    if taken != PATHS:
        sys.exit(f"the calls took these paths alone: {taken}")
    print("all right")


if __name__ == "__main__":
    main()
