"""Prints a hash of the results' bits for each build of the library.

    python3 tools/result_hash.py OLD.so NEW.so

Builds with the same results have the same hash. An operation that one build lacks is left out of
all hashes. Arrays are pageable and pinned, of lengths around every edge; placements are auto, gpu
and cpu.
"""

import ctypes
import hashlib
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests" / "support"))
from operations import OPERATIONS

SIZES = [1, 2, 3, 31, 33, 127, 129, 1000, 4095, 4097, 8193, 65_535, 65_537, 300_001, 3_000_001]
# Auto, gpu, cpu.
PLACEMENTS = [0, 1, 2]
ARGUMENTS = {"f": ctypes.c_float, "d": ctypes.c_double}


def results(library: ctypes.CDLL, operation, a: np.ndarray, b: np.ndarray):
    """Yields for each kind of memory the output, or after an error the status."""
    outputs = operation.outputs(a.size)
    library.pinned_alloc.restype = ctypes.c_void_p
    size = 3 * max(a.nbytes, 8 * outputs)
    for pinned in (None, library.pinned_alloc(ctypes.c_size_t(size))):
        block = (
            np.empty(size, np.uint8)
            if pinned is None
            else np.ctypeslib.as_array(ctypes.cast(pinned, ctypes.POINTER(ctypes.c_uint8)), (size,))
        )
        parts = [part[: array.nbytes] for part, array in zip(np.split(block, 3), (a, b))]
        for part, array in zip(parts, (a, b)):
            part[:] = array.view(np.uint8)
        out = np.split(block, 3)[2][: outputs * np.dtype(operation.out_dtype).itemsize]
        arrays = [ctypes.c_void_p(part.ctypes.data) for part in parts][: operation.shape.arity]
        alpha = (
            [ARGUMENTS[np.dtype(operation.dtype).char](operation.alpha)] if operation.alpha else []
        )
        where = [ctypes.c_void_p(out.ctypes.data), ctypes.c_size_t(a.size)]
        stream = [None] if operation.takes_stream else []
        status = getattr(library, operation.name)(*alpha, *arrays, *where, *stream)
        yield out.tobytes() if status == 0 else str(status).encode()
        if pinned is not None:
            library.pinned_free(ctypes.c_void_p(pinned))


def main() -> None:
    """Prints a line for each library."""
    libraries = {path: ctypes.CDLL(str(Path(path).resolve())) for path in sys.argv[1:]}
    shared = [
        operation
        for operation in OPERATIONS
        if all(hasattr(library, operation.name) for library in libraries.values())
    ]
    for path, library in libraries.items():
        bits, count = hashlib.sha256(), 0
        for placement in PLACEMENTS:
            library.gpuvec_set_placement(placement)
            for operation in shared:
                for n in SIZES:
                    a, b = operation.data(np.random.default_rng(n), n)
                    for result in results(library, operation, a, b):
                        bits.update(result)
                        count += 1
        print(f"{bits.hexdigest()}  {count:,} results of {len(shared)} operations  {path}")


if __name__ == "__main__":
    main()
