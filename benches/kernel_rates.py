"""Measures each kernel of the library: registers, spills, bytes per element and memory rate.

The calls are queued on a gpuvec stream, on device arrays, and timed by gpuvec events.
"""

from ctypes import byref, c_float, c_int
from pathlib import Path
from statistics import median
from typing import Optional

import bounds
import numpy as np
from bindings import Place, lib
from device import DRIVER_ERRORS, ROOT, Device
from expression_kernels import FOLDER
from operations import FAMILY, Operation
from streams import Resources, ok

LOCAL_BYTES, REGISTERS = 3, 4

# The number of calls between two events.
CALLS = 10

PREFIX = "gpuvec_"
COPY = "copy_bytes"
KERNELS = sorted([COPY, *(operation.name[len(PREFIX) :] for operation in FAMILY)])


def image_of(kernel: str) -> Path:
    """Returns a kernel's PTX: make gpu-bundle wrote those of operations."""
    folder = ROOT / "kernels" / "ptx" if kernel == COPY else FOLDER / "operations"
    return folder / f"{kernel}.ptx"


def resources_of(device: Device, kernel: str) -> Optional[tuple[int, int]]:
    """Returns a kernel's registers per thread and its spilled bytes (local memory)."""
    try:
        function = device.kernel(image_of(kernel), kernel)
        values = [c_int(), c_int()]
        for value, attribute in zip(values, (REGISTERS, LOCAL_BYTES)):
            device.call("cuFuncGetAttribute", byref(value), attribute, function)
    except (*DRIVER_ERRORS, FileNotFoundError):
        return None
    return values[0].value, values[1].value


class Timed:
    """Operations on the same three device arrays of `size` bytes."""

    def __init__(self, resources: Resources, size: int, rounds: int) -> None:
        self.size, self.rounds = size, rounds
        self.arrays = [resources.device_memory(size) for _ in range(3)]
        # A bit pattern that is a finite number in every element type.
        for array in self.arrays:
            array.put(np.full(size // 4, 0x3F803F80, np.uint32))
        self.stream = resources.stream()
        self.events = [resources.event() for _ in range(2)]

    def seconds(self, operation: Operation) -> list[float]:
        """Returns the seconds per call, for each round after a warm-up."""
        n = self.size // np.dtype(operation.dtype).itemsize
        a, b, out = (array.address for array in self.arrays)
        function = getattr(lib, operation.name)
        start, end = self.events

        def one_round() -> float:
            ok(lib.gpuvec_event_record(start, self.stream))
            for _ in range(CALLS):
                ok(function(*operation.inputs(a, b), out, n, self.stream))
            ok(lib.gpuvec_event_record(end, self.stream))
            ok(lib.gpuvec_event_synchronize(end))
            ms = c_float()
            ok(lib.gpuvec_event_elapsed(start, end, byref(ms)))
            return 1e-3 * ms.value / CALLS

        return [one_round() for _ in range(self.rounds + 1)][1:]


def ceiling_of(operation: Operation) -> str:
    """Returns the name of the operation's ceiling: reading, or reading and writing."""
    if operation.kind == "elementwise":
        return "device_copy"
    loop = "fma_dot" if len(operation.arrays) == 3 else "plain_sum"
    return f"{loop}_f{8 * np.dtype(operation.dtype).itemsize}"


def row(device: Device, kernel: str, timed: Timed, ceilings: dict) -> dict:
    """Makes a kernel's row."""
    used = resources_of(device, kernel) or ("unknown", "unknown")
    line = {"kernel": kernel, "registers": used[0], "spilled bytes": used[1]}
    operation = next((one for one in FAMILY if one.name == PREFIX + kernel), None)
    if operation is None:
        return {**line, "bytes per element": "", "GB/s": "", "of ceiling": "", "ceiling": ""}
    moved = len(operation.arrays) - (operation.kind == "reduction")
    rate = moved * timed.size / median(timed.seconds(operation)) / 1e9
    name = ceiling_of(operation)
    ceiling = bounds.value(ceilings, name)
    return {
        **line,
        "bytes per element": moved * np.dtype(operation.dtype).itemsize,
        "GB/s": rate,
        "of ceiling": f"{rate / ceiling:.3f}" if ceiling else "",
        "ceiling": name if ceiling else "",
    }


def kernel_rates(device: Device, size: int, rounds: int, ceilings: dict) -> list[dict]:
    """Returns a row for each kernel, on arrays of `size` bytes."""
    lib.gpuvec_set_placement(Place.GPU)
    with Resources() as resources:
        timed = Timed(resources, size - size % 8, rounds)
        return [row(device, kernel, timed, ceilings) for kernel in KERNELS]
