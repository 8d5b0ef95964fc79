"""The calls that run under compute-sanitizer: every kernel on every path, sizes around every edge.

Results are compared with the tests' oracles, so that a pass means right results as well.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests"))
from arrays import MIXED, UNIFORM, assert_same_bits, call, filled, guarded
from bindings import Place, last_error, lib
from operations import OPERATIONS

SIZES = [1, 3, 4, 5, 31, 127, 129, 4095, 4096, 4097, 131_073, 262_145, 1_100_003]


def main() -> None:
    """Runs every operation on the GPU; exits 1 if a call fails, an assertion if bits differ."""
    rng = np.random.default_rng(1)
    calls = 0
    for operation in OPERATIONS:
        for n in SIZES:
            values = operation.data(rng, n)
            expected = operation.oracle(*values)
            for kind_a, kind_b, kind_out in UNIFORM + MIXED:
                lib.gpuvec_set_placement(Place.AUTO)
                a, b = filled(kind_a, values[0]), filled(kind_b, values[1])
                out = guarded(kind_out, operation.dtype, operation.outputs(n))
                lib.gpuvec_set_placement(Place.GPU)
                if call(operation, a.array, b.array, out.array) != 0:
                    sys.exit(f"{operation}, n = {n}: {last_error()}")
                assert_same_bits(out.array, expected)
                calls += 1
    print(f"{calls} calls on the GPU, all right")


if __name__ == "__main__":
    main()
