"""Arrays in memory of any kind, between guard elements."""

import numpy as np
from arrays import GUARD_BYTE, assert_same_bits
from streams import Resources

# Elements behind an array, which a call must not change.
GUARD = 8


class Surrounded:
    """An array in larger memory, with elements before and behind it."""

    def __init__(self, resources: Resources, kind: str, offset: int, values: np.ndarray):
        self.offset = offset
        size = (offset + values.size + GUARD) * values.itemsize
        self.around = np.full(size, GUARD_BYTE, np.uint8)
        self.memory = resources.memory(kind, size)
        self.address = self.memory.address + offset * values.itemsize
        self.put(values)

    def block(self, values: np.ndarray) -> np.ndarray:
        """Returns the content of the memory if the array holds these values."""
        block = self.around.view(values.dtype).copy()
        block[self.offset : self.offset + values.size] = values
        return block

    def put(self, values: np.ndarray) -> None:
        """Copies values to the array."""
        self.memory.put(self.block(values))

    def check(self, values: np.ndarray) -> None:
        """Fails unless the array has these bits and its surroundings are unchanged."""
        assert_same_bits(self.memory.get(values.dtype), self.block(values))
