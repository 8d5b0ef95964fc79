"""The kernels that crates/ptx/examples/formulas.rs wrote, launched without the library."""

import os
from ctypes import addressof, byref, c_char_p, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cuda_driver import DeviceArray, Driver

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("GPUVEC_TEST_EXPRESSIONS", ROOT / "target" / "gpu" / "expressions"))
THREADS = 256

# Elements that one hash stands for.
HASHED = 1 << 12

SCRATCH_BYTES = 131_072
STATE_WORDS = 4 + 134

# The words of an exact sum's state before its digits.
COUNTS = 4

TYPES = {
    "bool": np.uint8,
    "u8": np.uint8,
    "i8": np.uint8,
    "u16": np.uint16,
    "i16": np.uint16,
    "u32": np.uint32,
    "i32": np.uint32,
    "i64": np.uint64,
    "u64": np.uint64,
    "f16": np.uint16,
    "bf16": np.uint16,
    "f32": np.uint32,
    "f64": np.uint64,
}


class Case(NamedTuple):
    """A kernel, and its inputs."""

    name: str
    n: int
    elements_per_thread: int
    inputs: list[str]
    output: str

    def image(self) -> bytes:
        """Returns the kernel's PTX."""
        return (FOLDER / f"{self.name}.ptx").read_bytes()

    def hashes(self) -> np.ndarray:
        """Returns the hashes of the results."""
        return np.fromfile(FOLDER / f"{self.name}.hashes", np.uint64)

    def is_reduction(self) -> bool:
        """Says whether the result is one value."""
        return not (FOLDER / f"{self.name}.hashes").exists()

    def result(self) -> bytes:
        """Returns the result of a reduction."""
        return (FOLDER / f"{self.name}.result").read_bytes()

    def state(self) -> np.ndarray:
        """Returns the words of a reduction's state."""
        return np.fromfile(FOLDER / f"{self.name}.state", np.int64)

    def is_exact(self) -> bool:
        """Says whether the state is that of an exact sum."""
        return b"FINISH" not in self.image() and b"exact" in self.image()


def cases() -> list[Case]:
    """Returns all cases of the folder; none if it was not made."""
    file = FOLDER / "cases"
    lines = file.read_text().splitlines() if file.exists() else []
    found = []
    for line in lines:
        name, n, lanes, inputs, output = line.split()
        found.append(Case(name, int(n), int(lanes), inputs.split(","), output))
    return found


def u64(value: int) -> np.uint64:
    """Returns an unsigned number of 64 bits."""
    return np.uint64(value % (1 << 64))


def mix(x: np.ndarray) -> np.ndarray:
    """Returns the finaliser of splitmix64."""
    x = (x ^ (x >> u64(30))) * u64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> u64(27))) * u64(0x94D049BB133111EB)
    return x ^ (x >> u64(31))


SPECIAL = np.array(
    [0, 1, 1 << 63, 0x7FF0, 0xFFF0, 0xFFF8, 0x3FF0, 0x8000_0000_0000_0001], np.uint64
)


def values(element: str, number: int, n: int) -> np.ndarray:
    """Returns the bits of an input, as formulas.rs makes them."""
    random = mix(np.arange(1, n + 1, dtype=np.uint64) + u64(number << 40))
    choice, special = random & u64(3), SPECIAL[(random >> u64(2) & u64(7)).astype(int)]
    top = np.where(special < u64(0x10000), special << u64(48), special)
    is_special = (choice == 1) & (random & u64(0x700) == 0)
    sign, scale, anything = random >> u64(63), random >> u64(2) & u64(15), mix(random)
    if element == "bool":
        bits = sign
    elif element == "f64":
        number = sign << u64(63) | (u64(1023 - 8) + scale) << u64(52) | anything >> u64(12)
        bits = np.where(choice == 0, anything, np.where(is_special, top, number))
    elif element == "f32":
        number = sign << u64(31) | (u64(127 - 8) + scale) << u64(23) | anything >> u64(41)
        short = (top >> u64(63)) << u64(31) | (top << u64(4) >> u64(36)) & u64(0x7FFFFFFF)
        short |= (top & u64(1)).astype(np.uint64)
        bits = np.where(choice == 0, anything >> u64(32), np.where(is_special, short, number))
    else:
        bits = np.where(choice == 0, anything, (random >> u64(56)) - u64(128))
    return bits.astype(TYPES[element])


def hashed(results: np.ndarray) -> np.ndarray:
    """Returns the hash of each block of results."""
    places = mix(np.arange(1, HASHED + 1, dtype=np.uint64))
    wide = results.astype(np.uint64)
    blocks = (wide[start : start + HASHED] for start in range(0, wide.size, HASHED))
    return np.array([mix(block ^ places[: block.size]).sum(dtype=np.uint64) for block in blocks])


class ExpressionKernel:
    """A kernel in the driver's current context."""

    def __init__(self, driver: Driver, image: bytes) -> None:
        self.driver = driver
        self.module, self.function = c_void_p(), c_void_p()
        driver.call("cuModuleLoadData", byref(self.module), c_char_p(image))
        driver.call("cuModuleGetFunction", byref(self.function), self.module, b"expression")

    def launch(self, parameters: list[int], blocks: int) -> None:
        """Queues the kernel on the legacy default stream."""
        numbers = [c_uint64(value) for value in parameters]
        places = (c_void_p * len(numbers))(*(addressof(number) for number in numbers))
        sizes = (c_uint(size) for size in (blocks, 1, 1, THREADS, 1, 1, 0))
        self.driver.call("cuLaunchKernel", self.function, *sizes, None, places, None)

    def unload(self) -> None:
        """Unloads the module."""
        self.driver.call("cuModuleUnload", self.module)


def integer(words: np.ndarray) -> tuple[list[int], int]:
    """Returns the counts of an exact sum's state, and its digits as one integer."""
    digits = enumerate(int(word) for word in words[COUNTS:])
    counts = [int(word) for word in words[:COUNTS]]
    return counts, sum(digit << 32 * place for place, digit in digits)


def blocks_of(case: Case, n: int) -> int:
    """Returns the blocks with a thread for each pack."""
    return max(1, -(-n // (case.elements_per_thread * THREADS)))


class Arrays:
    """A case's arrays on the device, each some elements past a boundary."""

    def __init__(self, driver: Driver, case: Case, n: int, past: int) -> None:
        self.driver, self.n, self.past = driver, n, past
        made = [values(element, number, n) for number, element in enumerate(case.inputs)]
        out = np.zeros(n, TYPES[case.output])
        self.arrays = [
            DeviceArray(driver, np.pad(array, (self.offset(number), 1)))
            for number, array in enumerate([*made, out])
        ]

    def offset(self, number: int) -> int:
        """Elements that an array is past a boundary: with 3 the arrays differ."""
        return (number * 3) % 4 if self.past == 3 else self.past

    def places(self) -> list[int]:
        """Returns the arrays' addresses."""
        return [
            array.address + self.offset(number) * array.like.itemsize
            for number, array in enumerate(self.arrays)
        ]

    def parameters(self) -> list[int]:
        """Returns the kernel's parameters."""
        return [*self.places(), self.n, 0]

    def reduced(
        self, kernel: "ExpressionKernel", blocks: int, mode: int, finish: bool
    ) -> np.ndarray:
        """Returns the words of a reduction's state, or the result in the first of them."""
        scratch = DeviceArray(self.driver, np.zeros(SCRATCH_BYTES, np.uint8))
        words = DeviceArray(self.driver, np.zeros(STATE_WORDS, np.int64))
        out, result = (0, words.address) if finish else (words.address, 0)
        inputs = self.places()[:-1]
        kernel.launch([*inputs, out, self.n, 0, scratch.address, result, mode], blocks)
        found = words.values()
        assert not scratch.values().any(), "the scratch memory is not zero again"
        scratch.free()
        words.free()
        return found

    def results(self) -> np.ndarray:
        """Returns the output."""
        start = self.offset(len(self.arrays) - 1)
        return self.arrays[-1].values()[start : start + self.n]

    def free(self) -> None:
        """Frees the arrays."""
        for array in self.arrays:
            array.free()
