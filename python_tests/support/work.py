"""The parts of the scenarios of fault injection: work, and the arrays that it uses."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Callable

import numpy as np
from arrays import Guarded, assert_same_bits, block_size, filled, within
from bindings import Status, last_error
from fake_driver import CODES, FakeDriver

# Outcomes in addition to the names of statuses.
RIGHT = "right"
NULL = "NULL"

# One code of each kind that gpuvec tells apart: no memory, refused, and a device that is lost,
# whether the driver goes on or not.
ONE_OF_EACH = (2, 801, 999, 700)

# Calls of the driver after whose failure more may be held for good: those that give back, and the
# question where an array is, which is staged if there is no answer, through buffers that are kept.
LEAVING = frozenset(
    [
        *["cuMemFree_v2", "cuMemFreeHost", "cuMemHostUnregister", "cuPointerGetAttributes"],
        *["cuStreamDestroy_v2", "cuEventDestroy_v2", "cuDevicePrimaryCtxRelease_v2"],
        *["cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"],
    ]
)


class Work:
    """The work of a scenario. The parent makes it; each child uses its own copy."""

    # Placement auto must succeed whatever the driver does.
    always_answers = True
    # With placement gpu the cores must not do the work.
    needs_gpu = True
    # An attempt that failed may leave work in a stream.
    queues = False
    # The number of devices.
    devices = 1
    # The codes that are tried.
    codes = tuple(CODES)
    # The numbers of earlier rounds of the same work: each makes a scenario.
    turns = (0, 1)

    def in_parent(self) -> None:
        """Makes what all children share."""

    def in_child(self) -> None:
        """Makes what needs the driver."""

    def attempt(self) -> str:
        """Does the work and returns its outcome."""
        raise NotImplementedError

    def text(self) -> str:
        """The library's text for an attempt that failed."""
        return last_error()

    def check(self, outcome: str, calls: list[str]) -> None:
        """Fails unless the outcome fits an attempt that made these calls."""

    def is_half_done(self, calls: list[str]) -> bool:
        """Returns whether an attempt that failed after these calls may have destroyed its input."""
        return False

    def may_leave(self, failed: set[str]) -> bool:
        """Returns whether these calls, which failed, may leave objects with the driver for good."""
        return bool(failed & LEAVING)

    def reset(self) -> None:
        """Restores the state before the attempt."""


def outcome_of(status: int) -> str:
    """The outcome of a function that returns a status."""
    return RIGHT if status == Status.OK else Status(status).name


def assert_holds(array: np.ndarray, values: np.ndarray, what: str) -> None:
    """Fails unless the array has the values' bits."""
    if not np.array_equal(array.view(np.uint32), values.view(np.uint32)):
        # Slower, but it says where.
        try:
            assert_same_bits(array, values)
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from None


# Arrays that are a device's: their memory, and elements past a multiple of 64 bytes. All but the
# last are the first device's.
DEVICE_KINDS = {
    "device": ("device", 0),
    "device+5": ("device", 5),
    "managed": ("managed", 0),
    "other device": ("device", 0),
}


@dataclass
class OnDevice(Guarded):
    """An array in device memory, read where the fake driver keeps its bytes, even after a loss."""

    device_address: int

    @property
    def address(self) -> int:
        """The array's address on the device."""
        return self.device_address


def filled_on_device(kind: str, values: np.ndarray) -> OnDevice:
    """A guarded array in device or managed memory of the current context that holds the values."""
    memory, offset = DEVICE_KINDS[kind]
    size = block_size(values.dtype, values.size) * values.itemsize
    address, bytes_ = FakeDriver().memory(memory, size)
    block = bytes_.view(values.dtype)
    array = within(block, values.size, offset)
    array[:] = values
    return OnDevice(array, block, address + array.ctypes.data - block.ctypes.data)


class OnArrays(Work):
    """Work on arrays between guards, each in memory of its kind."""

    def lay_out(
        self, kinds: dict[str, str], before: dict[str, np.ndarray], results: dict[str, np.ndarray]
    ) -> None:
        """Describes each array: its memory, its content, and its content after success.

        A result may be shorter than its array: then it is what the array begins with. Arrays in
        pageable memory are made.
        """
        self.memory, self.before, self.results = kinds, before, results
        self.arrays: dict[str, Guarded] = {}
        self.make("pageable")

    @property
    def is_on_device(self) -> bool:
        """Returns whether an array is in a device's memory."""
        return any(kind in DEVICE_KINDS for kind in self.memory.values())

    def in_child(self) -> None:
        """Makes the arrays in pinned and in device memory."""
        self.make("pinned")
        if self.is_on_device:
            FakeDriver().hold_context()
            self.make("device", filled_on_device)
            self.make("managed", filled_on_device)
        if self.devices > 1:
            FakeDriver().hold_context(1)
            self.make("other device", filled_on_device)
            FakeDriver().hold_context()

    def make(self, memory: str, maker: Callable[[str, np.ndarray], Guarded] = filled) -> None:
        """Makes the arrays whose kind has this prefix."""
        for name, values in self.before.items():
            if self.memory[name].startswith(memory):
                self.arrays[name] = maker(self.memory[name], values)

    def address(self, name: str) -> int:
        """The address of an array."""
        return self.arrays[name].address

    def addresses(self, names: str) -> Iterator[int]:
        """The addresses of the arrays of these names."""
        return (self.address(name) for name in names.split())

    def check_arrays(self, outcome: str, may_have_written: bool) -> None:
        """Right results or untouched ones, and nothing else written."""
        for name, array in self.arrays.items():
            assert array.guards_are_intact(), f"something around {name} was written"
            is_result = name in self.results
            if is_result and outcome != RIGHT and may_have_written:
                continue
            start = self.results[name] if is_result and outcome == RIGHT else self.before[name]
            what = f"{name} after {outcome}"
            assert_holds(array.array[: start.size], start, what)
            assert_holds(array.array[start.size :], self.before[name][start.size :], what)

    def reset(self) -> None:
        """Undoes what was written."""
        for name, result in self.results.items():
            self.arrays[name].array[: result.size] = self.before[name][: result.size]
