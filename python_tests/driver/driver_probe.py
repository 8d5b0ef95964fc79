"""Prints as JSON how gpuvec behaves in this process; run by the tests of drivers that fail."""

import ctypes
import json

import numpy as np
from arrays import call, compute
from bindings import Backend, Place, last_error, last_run, lib, why_cpu
from operations import CLASSIC, FOR_A_GPU, OPERATIONS, SAMPLE, repeated

SIZES = [1, 1000, FOR_A_GPU]
UNTOUCHED = 7


def cases() -> list:
    """Operations with inputs, small and large, and their right results."""
    made = []
    for n in SIZES:
        for operation in CLASSIC if n == FOR_A_GPU else SAMPLE:
            inputs = repeated(operation, n)
            made.append((operation, inputs, operation.oracle(*inputs).tobytes()))
    return made


def results(cases: list) -> dict:
    """Returns for each case whether its result is right and whether the CPU computed it."""
    found = {}
    for operation, inputs, expected in cases:
        right = compute(operation, *inputs).tobytes() == expected
        found[f"{operation} of {inputs[0].size}"] = [right, last_run().backend == Backend.CPU]
    return found


def demands(cases: list) -> dict:
    """Returns for each case with placement gpu: status, text, and whether `out` is untouched."""
    found = {}
    for operation, (a, b), _ in cases:
        out = np.full(operation.outputs(a.size), UNTOUCHED, operation.out_dtype)
        status = call(operation, a, b, out)
        untouched = bool((out == UNTOUCHED).all())
        found[f"{operation} of {a.size}"] = [status, last_error(), untouched]
    return found


def pinned_memory() -> str:
    """Returns why an allocation fails, or whether its memory can be written, used and freed."""
    address = lib.pinned_alloc(400_000)
    if not address:
        return last_error()
    a = np.ndarray(100_000, np.float32, (ctypes.c_char * 400_000).from_address(address))
    a[:] = np.arange(a.size)
    right = bool((compute(OPERATIONS[0], a, a) == 2 * np.arange(a.size)).all())
    return "works" if right and lib.pinned_free(address) == 0 else "does not work"


def main() -> None:
    """Prints the report: placement auto, then gpu, then auto again."""
    known = cases()
    report = {"init": lib.gpuvec_init(), "why_cpu": why_cpu()}
    report["devices"] = lib.gpuvec_device_count()
    report["results"] = results(known)
    report["pinned memory"] = pinned_memory()
    lib.gpuvec_set_placement(Place.GPU)
    report["demands"] = demands(known)
    report["init on demand"] = [lib.gpuvec_init(), last_error()]
    report["pinned on demand"] = [lib.pinned_alloc(4096), last_error()]
    lib.gpuvec_set_placement(Place.AUTO)
    report["results afterwards"] = results(known)
    print(json.dumps(report))


main()
