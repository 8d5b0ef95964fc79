"""The calls that run under compute-sanitizer: every kernel, every path, sizes around every edge.

Results are compared with the CPU's bits, so that a pass means right results as well as clean ones.
The library is used through placement gpu: GPUVEC_PLACEMENT is not read here.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests"))
import bindings  # noqa: E402
from bindings import Place  # noqa: E402
from operations import OPERATIONS  # noqa: E402

SIZES = [1, 3, 4, 5, 31, 127, 129, 4095, 4096, 4097, 131_073, 262_145, 1_100_003]


def copied(kind: str, offset: int, values: np.ndarray) -> np.ndarray:
    """`values` in memory of a kind, `offset` elements past its beginning."""
    make = bindings.pinned_empty if kind == "pinned" else np.empty
    array = make(values.size + offset, values.dtype)[offset:]
    array[:] = values
    return array


def main() -> None:
    """Runs every operation; exits 1 if a result's bits differ."""
    generator = np.random.default_rng(1)
    calls = 0
    for operation in OPERATIONS:
        function = getattr(bindings.lib, operation.function)
        for n in SIZES:
            values = [generator.integers(-99, 99, n).astype(operation.dtype) for _ in range(2)]
            for kind in ("pageable", "pinned"):
                for offsets in ((0, 0, 0), (1, 1, 1), (0, 1, 2)):
                    bindings.lib.gpuvec_set_placement(Place.AUTO)
                    a, b = (copied(kind, o, v) for o, v in zip(offsets, values))
                    size = n if operation.kind == "elementwise" else 1
                    out = copied(kind, offsets[2], np.zeros(size, operation.dtype))
                    results = []
                    for place in (Place.CPU, Place.GPU):
                        bindings.lib.gpuvec_set_placement(place)
                        addresses = [array.ctypes.data for array in (a, b, out)]
                        status = function(*addresses, n)
                        if status != 0:
                            sys.exit(f"{operation.function}, n = {n}: {bindings.last_error()}")
                        results.append(out.tobytes())
                    calls += 1
                    if results[0] != results[1]:
                        sys.exit(f"{operation.function}, n = {n}, {kind}: other bits on the GPU")
    print(f"{calls} calls on the GPU, all with the CPU's bits")


if __name__ == "__main__":
    main()
