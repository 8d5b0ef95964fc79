"""Base classes of the scenarios of fault injection: work, and the arrays that it uses."""

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

# One code of each kind that gpuvec tells apart: out of memory, refused, and lost devices, with a
# driver that still works and one that does not.
ONE_OF_EACH = (2, 801, 999, 700)

# Calls of the driver whose failure may leave objects held for good: calls that release something,
# and the query of an array's memory, without which it is staged through buffers that are kept.
LEAVING = frozenset(
    [
        *["cuMemFree_v2", "cuMemFreeHost", "cuMemHostUnregister", "cuPointerGetAttributes"],
        *["cuStreamDestroy_v2", "cuEventDestroy_v2", "cuDevicePrimaryCtxRelease_v2"],
        *["cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuModuleUnload"],
    ]
)


class Work:
    """The work of a scenario. The parent makes it; each child uses its own copy."""

    # Set if placement auto must succeed, whatever the driver does.
    always_answers = True
    # Set if the cores must not do the work with placement gpu.
    needs_gpu = True
    # Set if a failed attempt may leave work in a stream.
    queues = False
    # The number of devices.
    devices = 1
    # The codes to try.
    codes = tuple(CODES)
    # The numbers of earlier rounds of the same work; each number makes a scenario.
    turns = (0, 1)

    def in_parent(self) -> None:
        """Makes the objects that all children share."""

    def in_child(self) -> None:
        """Makes the objects that need the driver."""

    def attempt(self) -> str:
        """Does the work and returns its outcome."""
        raise NotImplementedError

    def text(self) -> str:
        """Returns the library's error text for a failed attempt."""
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
    """Returns the outcome of a function that returns a status."""
    return RIGHT if status == Status.OK else Status(status).name


def assert_holds(array: np.ndarray, values: np.ndarray, what: str) -> None:
    """Fails unless the array has the values' bits."""
    if not np.array_equal(array.view(np.uint32), values.view(np.uint32)):
        # Slower, but shows the first difference.
        try:
            assert_same_bits(array, values)
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from None


# Arrays on a device: their memory, and their offset in elements from a multiple of 64 bytes. All
# but the last are on the first device.
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
        """Returns the array's address on the device."""
        return self.device_address


def filled_on_device(kind: str, values: np.ndarray) -> OnDevice:
    """Makes a guarded array with these values in the current context's device or managed memory."""
    memory, offset = DEVICE_KINDS[kind]
    size = block_size(values.dtype, values.size) * values.itemsize
    address, bytes_ = FakeDriver().memory(memory, size)
    block = bytes_.view(values.dtype)
    array = within(block, values.size, offset)
    array[:] = values
    return OnDevice(array, block, address + array.ctypes.data - block.ctypes.data)


class OnArrays(Work):
    """Work on guarded arrays, each in memory of its kind."""

    def lay_out(
        self, kinds: dict[str, str], before: dict[str, np.ndarray], results: dict[str, np.ndarray]
    ) -> None:
        """Describes each array: its memory, its content, and its content after success.

        A result may be shorter than its array, and is then at its beginning. Makes the arrays in
        pageable memory.
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
        """Returns the address of an array."""
        return self.arrays[name].address

    def addresses(self, names: str) -> Iterator[int]:
        """Returns the addresses of the arrays of these names."""
        return (self.address(name) for name in names.split())

    def check_arrays(self, outcome: str, may_have_written: bool) -> None:
        """Fails unless results are right or untouched, and nothing else was written."""
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
        """Restores the arrays' content."""
        for name, result in self.results.items():
            self.arrays[name].array[: result.size] = self.before[name][: result.size]
