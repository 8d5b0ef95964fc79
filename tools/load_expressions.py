"""The expressions of tools/load.py: some that all threads share, and some that come and go."""

import random

import numpy as np
from arrays import assert_same_bits
from bindings import Backend, Status, last_error, last_run, lib, pinned_empty
from formulas import Compiled

SIZES = [1, 100, 4097, 50_001]
# More texts than the library remembers.
TEXTS = 100


class SharedExpressions:
    """Expressions that all threads use."""

    def __init__(self) -> None:
        self.scaled = Compiled("2*a + i", {"a": "f4", "i": "i2"})
        self.count = Compiled("count(a > i)", {"a": "f4", "i": "i2"})


class ExpressionWork:
    """A thread's calls of expressions."""

    def __init__(self, shared: SharedExpressions, number: int) -> None:
        self.shared, self.chance = shared, random.Random(number)
        self.bytes = 0
        self.a = pinned_empty(max(SIZES), np.float32)
        self.a[:] = np.arange(max(SIZES))
        self.i = (np.arange(max(SIZES)) % 1000).astype(np.int16)
        self.count = np.empty(1, np.int64)
        self.outs = [np.empty(max(SIZES), np.float32), pinned_empty(max(SIZES), np.float32)]

    def round(self) -> str:
        """Calls an existing expression or a new one; returns where the call ran."""
        n, out = self.chance.choice(SIZES), self.chance.choice(self.outs)
        a, i = self.a[:n], self.i[:n]
        self.bytes += a.nbytes + i.nbytes + 4 * n
        kind = self.chance.randrange(3)
        if kind == 0:
            self.run(self.shared.count, self.count, n)
            assert self.count[0] == np.count_nonzero(a > i)
        elif kind == 1:
            self.run(self.shared.scaled, out, n)
            assert_same_bits(out[:n], 2 * a + i)
        else:
            shift = self.chance.randrange(TEXTS)
            with Compiled(f"a - i + {shift}", {"a": "f4", "i": "i2"}) as compiled:
                self.run(compiled, out, n)
            assert_same_bits(out[:n], a - i + np.float32(shift))
        return Backend(last_run().backend).name

    def run(self, compiled: Compiled, out: np.ndarray, n: int) -> None:
        """Evaluates an expression of the first `n` elements."""
        status = compiled.run([self.a.ctypes.data, self.i.ctypes.data], out.ctypes.data, n)
        assert status == Status.OK, last_error()
        # Calls on host arrays do not wait for that.
        if self.chance.random() < 0.01:
            assert lib.gpuvec_expr_prepare(compiled.handle, 0) in (Status.OK, Status.ERROR_NO_GPU)
