"""Accumulators with a shape: sums along axes in pieces have the bits of Python's fractions."""

import ctypes
import resource
import threading
from pathlib import Path

import numpy as np
import pytest
from accumulators import NUMBERS, Sums, lengths
from axes_cases import bits, filled, slices
from bindings import Backend, Place, Status, last_error, last_run, lib, placed, why_cpu
from corpus import KINDS
from exact_sums import by_exponents, by_rationals
from fork import in_child
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import Resources, ok
from views import located, made

each_kind = pytest.mark.parametrize("kind", [pytest.param(kind, id=str(kind)) for kind in KINDS])
needs_gpu = pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")

SHAPES = st.lists(st.one_of(st.integers(1, 4), st.integers(1, 40)), max_size=5)


def kept(shape: tuple, axes: tuple) -> tuple:
    """Returns the lengths of the axes that are not reduced."""
    return tuple(length for axis, length in enumerate(shape) if axis not in axes)


def expected(arrays: list, axes: tuple, oracle=by_rationals) -> np.ndarray:
    """Returns the sum of each slice, by an oracle."""
    sums = [oracle(*copies)[0] for _, copies in slices(arrays, axes)]
    return np.array(sums, arrays[0].dtype).reshape(kept(arrays[0].shape, axes))


def numbers(kind, shape: tuple, seed: int = 0) -> list[np.ndarray]:
    """Returns arrays of many magnitudes."""
    rng = np.random.default_rng(seed)
    return [
        np.ldexp(rng.standard_normal(shape), rng.integers(-40, 40, shape)).astype(kind.dtype)
        for _ in range(1 + kind.is_dot)
    ]


def letter(kind) -> str:
    """Returns the type of elements as NumPy abbreviates it."""
    return np.dtype(kind.dtype).str[1:]


@each_kind
@given(data=st.data())
@settings(max_examples=40)
def test_pieces_of_any_views(kind, data):
    """Cut along an axis that is reduced, in any order, merged or added, they are the whole."""
    shape = tuple(data.draw(SHAPES.filter(lambda shape: np.prod(shape) < 2000)))
    axes = tuple(axis for axis in range(len(shape)) if data.draw(st.booleans()))
    arrays = [made(data, shape, letter(kind), filled) for _ in range(1 + kind.is_dot)]
    right = expected(arrays, axes)
    with Sums(kind, right.shape) as whole, Sums(kind, right.shape) as parts:
        whole.add_along(arrays, axes)
        assert whole.value().tobytes() == right.tobytes()
        pieces = [arrays]
        if axes:
            axis = data.draw(st.sampled_from(axes))
            cuts = sorted(data.draw(st.lists(st.integers(0, shape[axis]), max_size=3)))
            pieces = list(zip(*(np.split(array, cuts, axis) for array in arrays)))
        for piece in data.draw(st.permutations(pieces)):
            if data.draw(st.booleans()):
                parts.add_along(list(piece), axes)
                continue
            with Sums(kind, right.shape) as other:
                other.add_along(list(piece), axes)
                ok(lib.gpuvec_accumulator_merge(parts.handle, other.handle))
        assert parts.state() == whole.state()


CASES = [
    ((300, 1100), (0,)),
    ((300, 1100), (1,)),
    ((2, 40_000), (1,)),
    ((40_000, 3), (0,)),
    ((3, 5000), (0,)),
    ((7, 30, 11, 60), (1, 3)),
    ((7, 30, 11, 60), (0, 2)),
    ((5, 4000, 6), (1,)),
    ((17, 1025), ()),
    ((65, 129), (0, 1)),
]


@each_kind
@pytest.mark.parametrize(("shape", "axes"), CASES)
def test_sums_of_many_elements(placement, kind, shape, axes):
    """By any number of threads; also of transposed arrays."""
    arrays = numbers(kind, shape)
    right = expected(arrays, axes, by_exponents)
    for order in "CF":
        with Sums(kind, right.shape) as sums:
            sums.add_along([np.array(array, order=order) for array in arrays], axes)
            assert sums.value().tobytes() == right.tobytes()
            run = last_run()
            assert run.backend != Backend.NONE and run.chunks > 0


@each_kind
@pytest.mark.parametrize("kinds", [("device",), ("device", "pageable"), ("managed", "device")])
@given(data=st.data())
@settings(max_examples=15)
def test_views_in_memory_of_every_kind(kind, kinds, data):
    """Without a GPU all memory is the host's."""
    shape = tuple(data.draw(SHAPES.filter(lambda shape: np.prod(shape) < 1000)))
    axes = tuple(axis for axis in range(len(shape)) if data.draw(st.booleans()))
    with Resources() as resources:
        arrays = [
            located(data, resources, kinds[number % len(kinds)], shape, letter(kind), True, filled)
            for number in range(1 + kind.is_dot)
        ]
        right = expected([array.view for array in arrays], axes)
        stream = resources.stream() if data.draw(st.booleans()) else None
        with Sums(kind, right.shape) as sums:
            ok(sums.add(shape, [array.argument for array in arrays], bits(axes), stream))
            assert sums.value().tobytes() == right.tobytes()
        for array in arrays:
            array.check()


LONG = [
    *((kind, (1 << 18, 2, 3), (0,)) for kind in KINDS),
    (KINDS[0], (3, 2, 1 << 18), (0, 2)),
    (KINDS[1], (3, 2, 1 << 18), (2,)),
    (KINDS[0], (2, (1 << 20) + 9), (1,)),
    # Sums of few elements.
    (KINDS[1], (3, 360_001), (0,)),
    (KINDS[1], (360_001, 3), (1,)),
]


@pytest.mark.parametrize(("kind", "shape", "axes"), LONG, ids=str)
def test_device_arrays_of_several_chunks(kind, shape, axes):
    """They have the states of host arrays, wherever they are added."""
    arrays = numbers(kind, shape)
    with Resources() as resources:
        # No device reaches arrays of two.
        kinds = ("device", "other device")
        places = [resources.array(of, array).address for of, array in zip(kinds, arrays)]
        with Sums(kind, kept(shape, axes)) as sums:
            ok(sums.add(shape, places, bits(axes)))
            assert sums.state() == state_of_cores(kind, arrays, axes)


def state_of_cores(kind, arrays: list[np.ndarray], axes: tuple) -> bytes:
    """Returns the states of an accumulator to which cores added host arrays."""
    with Sums(kind, kept(arrays[0].shape, axes)) as sums, placed(Place.CPU):
        sums.add_along(arrays, axes)
        return sums.state()


# The fewest elements of a sum that have as many bytes as its state.
ENOUGH = {"dot_f32": 24, "sum_f32": 30, "dot_f64": 69, "sum_f64": 72}

# Kinds of the arrays' memory, and a placement with which a GPU adds them.
ON_GPU = [
    (("device", "device"), Place.AUTO),
    (("device", "pageable"), Place.AUTO),
    (("device", "managed"), Place.GPU),
    (("pageable", "pageable"), Place.GPU),
    (("pinned", "pageable"), Place.GPU),
]
each_place = pytest.mark.parametrize(("kinds", "place"), ON_GPU, ids=str)

REDUCED = [
    ((1, 100), (1,)),
    ((3, 5000), (1,)),
    ((5000, 3), (0,)),
    ((7, 30, 11, 60), (1, 3)),
    ((60, 3, 7, 31), (0, 2)),
    ((1, 90_001), (0, 1)),
    # More states than a slot has room for, and blocks of several results.
    ((1801, 73), (1,)),
    ((73, 1801), (0,)),
]


def special(kind, shape: tuple) -> list[np.ndarray]:
    """Returns arrays in which some parts have NaN, infinities, and zeros of both signs."""
    n = int(np.prod(shape))
    random, part = np.random.default_rng(n), -(-n // 20)

    def array() -> np.ndarray:
        parts = [filled(random, np.dtype(kind.dtype), part) for _ in range(20)]
        return np.concatenate(parts)[:n].reshape(shape)

    return [array() for _ in range(1 + kind.is_dot)]


@needs_gpu
@each_kind
@each_place
@pytest.mark.parametrize(("shape", "axes"), REDUCED, ids=str)
def test_gpus_add_as_cores_do(kind, kinds, place, shape, axes):
    """The states have the same bytes, counts of elements and of NaN and infinities included."""
    for order in "CF":
        arrays = [np.array(array, order=order) for array in special(kind, shape)]
        with Resources() as resources, Sums(kind, kept(shape, axes)) as sums, placed(place):
            memories = [resources.array(of, a.ravel("K")) for of, a in zip(kinds, arrays)]
            places = [(memory.address, a.strides) for memory, a in zip(memories, arrays)]
            ok(sums.add(shape, places, bits(axes)))
            assert last_run().backend == Backend.GPU
            assert sums.state() == state_of_cores(kind, arrays, axes)


@needs_gpu
@each_kind
def test_long_host_arrays_on_all_gpus(kind):
    shape = (1_500_001, 3)
    arrays = numbers(kind, shape)
    with Sums(kind, shape[1:]) as sums, placed(Place.GPU):
        sums.add_along(arrays, (0,))
        run = last_run()
        # A GPU that begins late may find no tile left.
        assert 0 < run.devices < 1 << lib.gpuvec_device_count() and run.chunks > 1
        assert sums.state() == state_of_cores(kind, arrays, (0,))


@needs_gpu
def test_many_sums_of_f32_on_a_gpu():
    """Their states have room in no slot."""
    kind, shape = KINDS[1], (9001, 31)
    arrays = special(kind, shape)
    with Resources() as resources, Sums(kind, shape[:1]) as sums:
        ok(sums.add(shape, [resources.array("device", arrays[0]).address], 0b10))
        assert (last_run().backend, last_run().chunks) == (Backend.GPU, 2)
        assert sums.state() == state_of_cores(kind, arrays, (1,))


@needs_gpu
@each_kind
@each_place
@given(data=st.data())
@settings(max_examples=10)
def test_any_views_on_a_gpu(kind, kinds, place, data):
    """Broadcast, backwards, with gaps, and with axes in any order."""
    shape = list(data.draw(SHAPES.filter(lambda shape: len(shape) < 4 and np.prod(shape) < 60)))
    axis = data.draw(st.integers(0, len(shape)))
    shape.insert(axis, data.draw(st.integers(72, 200)))
    axes = tuple(other for other in range(len(shape)) if other == axis or data.draw(st.booleans()))
    with Resources() as resources, placed(place):
        arrays = [
            located(data, resources, of, tuple(shape), letter(kind), True, filled)
            for of in kinds[: 1 + kind.is_dot]
        ]
        views = [array.view for array in arrays]
        with Sums(kind, kept(tuple(shape), axes)) as sums:
            ok(sums.add(tuple(shape), [array.argument for array in arrays], bits(axes)))
            assert last_run().backend == Backend.GPU
            assert sums.value().tobytes() == expected(views, axes).tobytes()
            assert sums.state() == state_of_cores(kind, views, axes)
        for array in arrays:
            array.check()


@needs_gpu
@each_kind
@each_place
def test_elements_of_fewer_bytes_than_states_are_copied(kind, kinds, place):
    """Then cores add them."""
    for n, backend in (ENOUGH[kind.name], Backend.GPU), (ENOUGH[kind.name] - 1, Backend.CPU):
        arrays = special(kind, (5, n))
        with Resources() as resources, Sums(kind, (5,)) as sums, placed(place):
            memories = [resources.array(of, array) for of, array in zip(kinds, arrays)]
            ok(sums.add((5, n), [memory.address for memory in memories], 0b10))
            assert last_run().backend == backend
            assert sums.state() == state_of_cores(kind, arrays, (1,))


@needs_gpu
@each_kind
def test_a_gpu_goes_on_with_a_stream_and_with_earlier_elements(kind):
    pieces = [numbers(kind, (100, 7), seed) for seed in range(4)]
    whole = [np.concatenate(arrays) for arrays in zip(*pieces)]
    with Resources() as resources, Sums(kind, (7,)) as sums:
        for number, piece in enumerate(pieces):
            places = [resources.array("device", array).address for array in piece]
            stream = resources.stream() if number % 2 else None
            ok(sums.add((100, 7), places, 0b01, stream))
        assert sums.state() == state_of_cores(kind, whole, (0,))


@needs_gpu
@each_kind
def test_a_gpu_adds_all_elements_or_none(kind):
    """One of the sums would have 2^63 elements: all stay as they are."""
    ones = [np.ones((128, 2), kind.dtype)] * (1 + kind.is_dot)
    with Sums(kind, (1,)) as power, Sums(kind, (1,)) as most, Resources() as resources:
        power.add_along([array[:, :1] for array in ones], (0,))
        ok(lib.gpuvec_accumulator_merge(most.handle, power.handle))
        # 2^62, and 2^63 - 128 elements.
        for _ in range(55):
            ok(lib.gpuvec_accumulator_merge(power.handle, power.handle))
            ok(lib.gpuvec_accumulator_merge(most.handle, power.handle))
        with Sums(kind, (2,), power.state() + most.state()) as sums:
            state = sums.state()
            places = [resources.array("device", array).address for array in ones]
            assert sums.add((128, 2), places, 0b01) == Status.ERROR_SIZE
            assert sums.state() == state
            ok(sums.add((127, 2), places, 0b01))


@needs_gpu
def test_placement_cpu_does_not_reach_device_memory():
    with Resources() as resources, Sums(KINDS[1], (2,)) as sums:
        place = resources.array("device", np.ones((2, 3), np.float32)).address
        with placed(Place.CPU):
            assert sums.add((2, 3), [place], 0b10) == Status.ERROR_PLACEMENT
            assert "inputs[0] is device memory" in last_error()
        assert sums.value().tolist() == [0, 0]


@pytest.mark.skipif(lib.gpuvec_device_count() > 0, reason="a GPU is usable")
def test_placement_gpu_needs_a_gpu_though_cores_add():
    ones = np.ones((2, 3), np.float32)
    with Sums(KINDS[1], (2,)) as sums, placed(Place.GPU):
        assert sums.add(ones.shape, [ones], 0b10) == Status.ERROR_NO_GPU
        assert sums.value().tolist() == [0, 0]


@each_kind
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1, 5), (0,), (4, 0)])
def test_states_add_up_word_by_word(kind, shape):
    """As MPI_SUM adds them, in the order of the elements; sums of none are empty."""
    pieces = [numbers(kind, (*shape, 7), seed) for seed in range(5)]
    with Sums(kind, shape) as whole:
        words = 0
        for piece in pieces:
            with Sums(kind, shape) as part:
                part.add_along(piece, (len(shape),))
                words = words + np.frombuffer(part.state(), np.int64)
            whole.add_along(piece, (len(shape),))
        with Sums(kind, shape, words.tobytes()) as read:
            assert read.state() == whole.state()
            assert read.value().tobytes() == whole.value().tobytes()
    # Each state is that of its sum alone.
    each = lib.gpuvec_accumulator_bytes(NUMBERS[kind.name])
    for index, place in zip(np.ndindex(shape), range(0, words.nbytes, each)):
        with Sums(kind, (), words.tobytes()[place : place + each]) as one, Sums(kind) as right:
            for piece in pieces:
                right.add_along([np.ascontiguousarray(array[index]) for array in piece], (0,))
            assert one.state() == right.state()


@each_kind
def test_nothing_to_add(placement, kind):
    """Then the arrays may be anything, and counts stay."""
    places = [1] * (1 + kind.is_dot)
    with Sums(kind, (3,)) as sums:
        ok(sums.add((3, 0), places, 0b10))
        ok(sums.add((0, 3, 5), places, 0b101))
        assert last_run().backend == Backend.NONE
        assert sums.value().tolist() == [0, 0, 0]
    with Sums(kind, (0, 2)) as none:
        ok(none.add((0, 2), places, 0))
        assert none.state() == b""
        ok(lib.gpuvec_accumulator_value(none.handle, None))
        ok(lib.gpuvec_accumulator_serialize(none.handle, None, 0))


@each_kind
def test_an_accumulator_without_a_shape_takes_arrays_of_any_strides(placement, kind):
    arrays = [array[::2, ::-1] for array in numbers(kind, (31, 8))]
    with Sums(kind) as sums:
        sums.add_along(arrays, (0, 1))
        contiguous = [np.ascontiguousarray(array) for array in arrays]
        second = contiguous[1].ctypes.data if kind.is_dot else None
        ok(
            lib.gpuvec_accumulator_add(
                sums.handle, contiguous[0].ctypes.data, second, arrays[0].size, None
            )
        )
        sums.add_along(contiguous, (0, 1))
        tripled = [np.tile(array.ravel(), 3) for array in arrays]
        assert sums.value().tobytes() == by_rationals(*tripled).tobytes()


@each_kind
def test_wrong_arguments_are_refused(placement, kind):
    """The text names the argument; nothing is added."""
    count = 1 + kind.is_dot
    array = np.ones((2, 3), kind.dtype)
    place, size = array.ctypes.data, array.itemsize
    arrays = [array] * count
    with Sums(kind, (3,)) as sums:
        for status, text, call in [
            (
                Status.ERROR_VALUE,
                "shape[1] is 4, but accumulator has length 3 along its axis 0",
                ((2, 4), arrays, 0b01),
            ),
            (
                Status.ERROR_VALUE,
                "shape[0] is 2, but accumulator has length 3 along its axis 0",
                ((2, 3), arrays, 0b10),
            ),
            (
                Status.ERROR_VALUE,
                "the number of axes that are not reduced is 2, but accumulator's is 1",
                ((2, 3), arrays, 0),
            ),
            (
                Status.ERROR_VALUE,
                "the number of axes that are not reduced is 0, but accumulator's is 1",
                ((2, 3), arrays, 0b11),
            ),
            (Status.ERROR_VALUE, "reduced_axes is 0x5, and ndim is 2", ((2, 3), arrays, 0b101)),
            (
                Status.ERROR_VALUE,
                "shape[0] is -2: pass a length of 0 or more",
                ((-2, 3), arrays, 0b01),
            ),
            (Status.ERROR_SIZE, "shape has 2^63 elements or more", ((2**62, 3), arrays, 0b01)),
            (
                Status.ERROR_NULL,
                "inputs[0] is NULL, but it has 6 elements",
                ((2, 3), [None, place][:count], 0b01),
            ),
            (Status.ERROR_MISALIGNED, "inputs[0] is ", ((2, 3), [place + 1] * count, 0b01)),
            (
                Status.ERROR_MISALIGNED,
                "inputs[0] has strides[0] of ",
                ((2, 3), [(place, (1, size))] * count, 0b01),
            ),
            (
                Status.ERROR_SIZE,
                "inputs[0] at ",
                ((2, 3), [(place, (-(2**62), size))] * count, 0b01),
            ),
        ]:
            assert sums.add(*call) == status, text
            assert last_error().startswith(text)
            assert last_run().backend == Backend.NONE
        assert sums.add((2, 3), arrays, 0b01, stream=3) == Status.ERROR_HANDLE
        assert "stream" in last_error()
        handle = sums.handle
        add = lib.gpuvec_accumulator_add_nd
        for arguments, text in [
            ((33, place, place, 0, None), "ndim is 33: pass 0 to 32 axes"),
            ((-1, place, place, 0, None), "ndim is -1: pass 0 to 32 axes"),
            ((2, None, place, 0, None), "shape is NULL"),
            ((2, ctypes.addressof(two := lengths((2, 3))), None, 1, None), "inputs is NULL"),
        ]:
            assert add(handle, *arguments) != Status.OK
            assert last_error().startswith(text)
        del two
        assert lib.gpuvec_accumulator_add(handle, place, None, 6, None) == Status.ERROR_VALUE
        assert last_error() == "accumulator has a shape: call gpuvec_accumulator_add_nd"
        assert sums.value().tolist() == [0, 0, 0]
    for none, status in (None, Status.ERROR_NULL), (handle, Status.ERROR_HANDLE):
        assert add(none, 0, None, place, 0, None) == status


def test_more_axes_than_are_merged_are_refused():
    shape = (2,) * 9
    array = np.ones((3,) * 9, np.float32)[(slice(2),) * 9]
    with Sums(KINDS[1], shape[1:]) as sums:
        assert sums.add(shape, [array], 1) == Status.ERROR_VALUE
        assert last_error().startswith("9 axes remain")
        assert not sums.value().any()


@each_kind
def test_accumulators_that_cannot_be_made(kind):
    number = NUMBERS[kind.name]
    create = lib.gpuvec_accumulator_create_nd
    shape = lengths((2, -1, 2**62, 2**45))
    place = ctypes.addressof(shape)
    for arguments, status, text in [
        ((0, 1, place), Status.ERROR_VALUE, "kind is 0"),
        ((number, 33, place), Status.ERROR_VALUE, "ndim is 33: pass 0 to 32 axes"),
        ((number, -1, place), Status.ERROR_VALUE, "ndim is -1: pass 0 to 32 axes"),
        ((number, 1, None), Status.ERROR_NULL, "shape is NULL"),
        ((number, 2, place), Status.ERROR_VALUE, "shape[1] is -1: pass a length of 0 or more"),
        ((number, 2, place + 16), Status.ERROR_SIZE, "shape has 2^63 elements or more"),
        ((number, 1, place + 16), Status.ERROR_OUT_OF_MEMORY, "out of host memory"),
        ((number, 1, place + 24), Status.ERROR_OUT_OF_MEMORY, "out of host memory"),
    ]:
        assert create(*arguments) is None
        assert lib.gpuvec_last_status() == status
        assert last_error().startswith(text)


@each_kind
def test_results_need_room(kind):
    memory = ctypes.create_string_buffer(5000)
    room, each = ctypes.addressof(memory), lib.gpuvec_accumulator_bytes(NUMBERS[kind.name])
    with Sums(kind, (2, 2)) as sums:
        assert lib.gpuvec_accumulator_value(sums.handle, None) == Status.ERROR_NULL
        assert lib.gpuvec_accumulator_serialize(sums.handle, None, 4 * each) == Status.ERROR_NULL
        for size in (0, each, 4 * each - 1, 4 * each + 1):
            status = lib.gpuvec_accumulator_serialize(sums.handle, room, size)
            assert status == Status.ERROR_VALUE
            assert (
                last_error().startswith(f"size is {size}, but ") and str(4 * each) in last_error()
            )
    assert memory.raw == bytes(5000)


@each_kind
def test_states_that_cannot_be_read(kind):
    """The text tells which state it is."""
    with Sums(kind, (2, 2)) as sums:
        sums.add_along(numbers(kind, (2, 2, 5)), (2,))
        state = sums.state()
    each, number = len(state) // 4, NUMBERS[kind.name]
    other = NUMBERS[KINDS[(KINDS.index(kind) + 1) % 4].name]
    shape = lengths((2, 2))
    read = lib.gpuvec_accumulator_deserialize_nd
    damaged = bytearray(state)
    damaged[2 * each + 40] ^= 1
    thousand = (np.frombuffer(state, np.int64) * (2**30 + 1)).tobytes()
    place = ctypes.addressof(shape)
    for status, text, call in [
        (
            Status.ERROR_STATE,
            "the state at index 2 of bytes cannot be read: it is damaged",
            (number, bytes(damaged)),
        ),
        (
            Status.ERROR_STATE,
            "the state at index 0 of bytes cannot be read",
            (number, bytes(len(state))),
        ),
        (
            Status.ERROR_SIZE,
            "the state at index 0 of bytes cannot be read: 1073741825 states",
            (number, thousand),
        ),
        (Status.ERROR_VALUE, f"size is {each}", (number, state[:each])),
        (Status.ERROR_VALUE, f"size is {len(state)}", (other, state)),
        (Status.ERROR_VALUE, "kind is 9", (9, state)),
    ]:
        kind_, content = call
        assert read(kind_, 2, place, content, len(content)) is None
        assert lib.gpuvec_last_status() == status, last_error()
        assert last_error().startswith(text)
    assert read(number, 2, place, None, 4 * each) is None
    assert lib.gpuvec_last_status() == Status.ERROR_NULL
    # Bytes of several states are not those of one.
    assert lib.gpuvec_accumulator_deserialize(state, len(state)) is None
    assert lib.gpuvec_last_status() == Status.ERROR_STATE


@each_kind
def test_accumulators_of_two_shapes_do_not_merge(kind):
    with Sums(kind, (2, 3)) as sums, Sums(kind, (2, 4)) as longer, Sums(kind, (6,)) as line:
        for other, text in [
            (longer, "other has length 4 along axis 1, but accumulator has 3"),
            (line, "other's number of axes is 1, but accumulator's is 2"),
        ]:
            status = lib.gpuvec_accumulator_merge(sums.handle, other.handle)
            assert status == Status.ERROR_VALUE
            assert last_error().startswith(text)
        with Sums(KINDS[KINDS.index(kind) - 1], (2, 3)) as other:
            status = lib.gpuvec_accumulator_merge(sums.handle, other.handle)
            assert status == Status.ERROR_VALUE
            assert "merge accumulators of one kind" in last_error()


@each_kind
def test_all_elements_of_an_addition_are_added_or_none(kind):
    """One of the sums would have 2^63 elements: all stay as they are."""
    ones = [np.ones((3, 2), kind.dtype)] * (1 + kind.is_dot)
    with Sums(kind, (1,)) as one, Sums(kind, (2,)) as small:
        one.add_along([array[:, :1] for array in ones], (0,))
        for _ in range(61):
            ok(lib.gpuvec_accumulator_merge(one.handle, one.handle))
        small.add_along(ones, (0,))
        state = small.state()[: len(one.state())] + one.state()
        with Sums(kind, (2,), state) as sums:
            # 3 and 3·2^61 elements: the double of the latter is more than 2^63.
            assert lib.gpuvec_accumulator_merge(sums.handle, sums.handle) == Status.ERROR_SIZE
            assert "2^63 elements" in last_error()
            with Sums(kind, (2,), state) as other:
                status = lib.gpuvec_accumulator_merge(sums.handle, other.handle)
                assert status == Status.ERROR_SIZE
            assert sums.state() == state
            sums.add_along(ones, (0,))
            assert sums.value().tolist() == [6, 3 * 2.0**61 + 3]


@each_kind
def test_threads_share_an_accumulator(placement, kind):
    """Additions, merges in both directions and reads at the same time lose nothing."""
    arrays = numbers(kind, (40, 50))
    with Sums(kind, (50,)) as total, Sums(kind, (50,)) as part, Sums(kind, (50,)) as right:
        right.add_along(arrays, (0,))

        def work():
            for _ in range(10):
                total.add_along(arrays, (0,))
                part.add_along(arrays, (0,))
                total.value()
                with Sums(kind, (50,)) as none:
                    ok(lib.gpuvec_accumulator_merge(none.handle, right.handle))
                    ok(lib.gpuvec_accumulator_merge(total.handle, none.handle))
                    # Both at once, in both directions.
                    assert len(part.state()) == len(right.state())

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with Sums(kind, (50,)) as expected_:
            for _ in range(80):
                ok(lib.gpuvec_accumulator_merge(expected_.handle, right.handle))
            assert total.state() == expected_.state()


def test_threads_merge_two_accumulators_into_each_other():
    """None waits for the other for ever, and the counts of elements tell that no merge is lost."""
    kind = KINDS[3]
    with Sums(kind, (100,)) as one, Sums(kind, (100,)) as other:

        def merge(to, from_):
            for _ in range(2000):
                ok(lib.gpuvec_accumulator_merge(to.handle, from_.handle))

        pairs = [(one, other), (other, one)] * 2
        threads = [threading.Thread(target=merge, args=pair) for pair in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert one.state() == other.state()


def test_a_forked_child_goes_on_with_its_own():
    """The child's additions are not the parent's; also while a thread of the parent adds."""
    kind, ones = KINDS[3], np.ones((20, 1000))
    with Sums(kind, (1000,)) as sums:
        sums.add_along([ones], (0,))
        stop = threading.Event()

        def work():
            while not stop.is_set():
                with Sums(kind, (1000,)) as other:
                    other.add_along([ones], (0,))

        def child():
            sums.add_along([ones], (0,))
            assert sums.value().tolist() == [40] * 1000

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for _ in range(5):
                in_child(child)
        finally:
            stop.set()
            thread.join()
        assert sums.value().tolist() == [20] * 1000


def test_without_memory_nothing_is_added():
    """The states of an addition need as much memory as the accumulator."""
    ones = np.ones((2, 300_000))
    out = np.zeros(300_000)

    def child():
        ok(lib.gpuvec_set_num_threads(1))
        with Sums(KINDS[3], out.shape) as sums:
            sums.add_along([ones], (0,))
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limit = pages * resource.getpagesize() + (16 << 20)
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            assert sums.add(ones.shape, [ones], 0b01) == Status.ERROR_OUT_OF_MEMORY
            assert "the states of an addition" in last_error()
            ok(lib.gpuvec_accumulator_value(sums.handle, out.ctypes.data))
            assert (out == 2).all()
            # Calls that need no further states succeed.
            ok(lib.gpuvec_accumulator_merge(sums.handle, sums.handle))
            ok(lib.gpuvec_accumulator_value(sums.handle, out.ctypes.data))
            assert (out == 4).all()

    in_child(child)
