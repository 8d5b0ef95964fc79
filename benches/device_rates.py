"""Rates on device arrays: functions beside a copy, and each kernel beside its ceiling."""

from argparse import Namespace
from collections.abc import Iterator
from ctypes import byref, c_int
from functools import partial
from statistics import median
from typing import Optional

import numpy as np
from bindings import Place, lib
from calls import package
from cases import fill, formula
from device import DRIVER_ERRORS, ROOT, Device
from expression_kernels import FOLDER
from harness import Row, batch_of
from operations import FAMILY, Operation
from streams import Resources, ok

# Pairs of arrays, whose places in the device's memory change rates by several per cent.
PAIRS = 7
LOCAL_BYTES, REGISTERS = 3, 4
# The number of calls that are queued one after the other.
CALLS = 10
PREFIX, COPY = "gpuvec_", "copy_bytes"


def functions(given: Namespace) -> Iterator[Row]:
    """Times functions of f32 and a copy in turn, by the clock.

    A function's share of the copy's rate is the median over the pairs of arrays; the range of the
    pairs stands beside it.
    """
    gpuvec, n, pairs, gaps = package(), max(given.n), [], []
    gpuvec.set_placement("gpu")
    for number in range(PAIRS):
        gaps.append(gpuvec.to_device(np.zeros((2 * number + 1) << 20, np.uint8)))
        pairs.append([gpuvec.to_device(np.zeros(n, np.float32)) for _ in range(2)])
    usual = np.empty(n, np.float32)
    for name in given.calls:
        function = gpuvec.Expression(formula(name).text, a=np.float32)
        fill(usual, 1, formula(name).data[0])
        found = []
        for x, out in pairs:
            gpuvec.copy(x, usual)
            calls = (lambda: function(a=x, out=out), lambda: gpuvec.copy(out, x))  # noqa: B023
            # The clocks rise in the first milliseconds.
            for call in calls * 10:
                call()
            times = [[batch_of(call)(1) for call in calls] for _ in range(given.rounds)]
            taken, copied = map(median, zip(*times))
            found.append((copied / taken, taken))
        shares = sorted(share for share, _ in found)
        yield {
            "what": name,
            "ms": 1e3 * median(taken for _, taken in found),
            "of copy": median(shares),
            "least": shares[0],
            "most": shares[-1],
        }


def resources_of(device: Device, kernel: str) -> Optional[tuple[int, int]]:
    """Returns a kernel's registers per thread and its spilled bytes (local memory).

    `make gpu-bundle` writes the PTX of operations.
    """
    folder = ROOT / "kernels/ptx" if kernel == COPY else FOLDER / "operations"
    try:
        function = device.kernel(kernel, (folder / f"{kernel}.ptx").read_bytes())
        values = [c_int(), c_int()]
        for value, attribute in zip(values, (REGISTERS, LOCAL_BYTES)):
            device.call("cuFuncGetAttribute", byref(value), attribute, function)
    except (*DRIVER_ERRORS, FileNotFoundError):
        return None
    return values[0].value, values[1].value


def kernels(given: Namespace) -> Iterator[Row]:
    """Measures each kernel: registers, spills, bytes per element and memory rate."""
    device = Device()
    lib.gpuvec_set_placement(Place.GPU)
    # Room for three arrays and for other processes.
    size = min(int(given.bytes), device.free_bytes() // 4) // 8 * 8
    operations = {one.name[len(PREFIX) :]: one for one in FAMILY}
    with Resources() as resources:
        # A bit pattern that is a finite number in every element type.
        bits = np.full(size // 4, 0x3F803F80, np.uint32)
        places = [resources.array("device", bits).address for _ in range(3)]
        stream = resources.stream()
        for kernel in sorted([COPY, *operations]):
            registers, spilled = resources_of(device, kernel) or ("unknown", "unknown")
            row = {"kernel": kernel, "registers": registers, "spilled bytes": spilled}
            if kernel in operations:
                row |= rate_of(operations[kernel], size, places, stream, given.rounds)
            yield row


def rate_of(operation: Operation, size: int, places: list[int], stream: int, rounds: int) -> Row:
    """Measures queued calls of an operation; names its ceiling: reading, or reading and writing."""
    item = np.dtype(operation.dtype).itemsize
    inputs, out = operation.inputs(*places[:2]), places[2]
    call = partial(getattr(lib, operation.name), *inputs, out, size // item, stream)
    wait = partial(lib.gpuvec_stream_synchronize, stream)
    batch = batch_of(lambda: ok(call()), lambda: ok(wait()))
    seconds = median([batch(CALLS) / CALLS for _ in range(rounds + 1)][1:])
    is_reduction = operation.kind == "reduction"
    moved = len(operation.arrays) - is_reduction
    loop = "fma_dot" if len(operation.arrays) == 3 else "plain_sum"
    return {
        "bytes per element": moved * item,
        "GB/s": moved * size / seconds / 1e9,
        "ceiling": f"{loop}_f{8 * item}" if is_reduction else "device_copy",
    }
