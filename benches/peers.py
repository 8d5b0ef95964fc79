"""The libraries and loops that gpuvec is compared with, each in its best idiom.

A peer's `call(case)` returns a function without arguments that runs the case once and returns when
the result is in the case's output, or None if the peer does not support such arrays. GPU peers use
preallocated device arrays, and copy asynchronously if host memory is pinned.
"""

import importlib
import math
import os
from ctypes import c_void_p
from typing import Callable, Optional

import numpy as np
from cases import TYPES, Case
from ceilings import IMAGE
from compiled import Compiled
from timing import Contender, of_python

Call = Callable[[], object]


class Peer:
    """A library or loop to compare with; its constructor raises if it is not installed."""

    name = ""
    on_gpu = False
    module = ""

    def __init__(self) -> None:
        self.library = importlib.import_module(self.module)
        self.version = self.library.__version__

    def call(self, case: Case) -> Optional[Call]:
        """Returns a function that runs the case once."""
        raise NotImplementedError

    def contender(self, case: Case) -> Optional[Contender]:
        """Returns the same function as a contender."""
        call = self.call(case)
        return Contender(self.name, of_python(call)) if call else None


class NumPy(Peer):
    """`np.add(a, b, out=out)` on one core, `np.dot` on the cores that its BLAS uses."""

    name, module = "NumPy", "numpy"

    def call(self, case: Case) -> Optional[Call]:
        """Supports host arrays."""
        a, b, out = case.a, case.b, case.out
        if case.op == "add":
            return lambda: np.add(a, b, out=out)
        return lambda: out.__setitem__(0, np.dot(a, b))


class NumExpr(Peer):
    """A compiled expression on all cores; its sums run on one."""

    name, module = "numexpr", "numexpr"

    def __init__(self) -> None:
        os.environ.setdefault("NUMEXPR_MAX_THREADS", str(cores()))
        super().__init__()
        self.library.set_num_threads(cores())

    def call(self, case: Case) -> Optional[Call]:
        """Supports host arrays."""
        names = {"a": case.a, "b": case.b}
        out, evaluate = case.out, self.library.evaluate
        if case.op == "add":
            return lambda: evaluate("a + b", names, out=out)
        return lambda: out.__setitem__(0, evaluate("sum(a * b)", names))


class TorchCpu(Peer):
    """PyTorch on all cores."""

    name, module = "PyTorch CPU", "torch"

    def call(self, case: Case) -> Optional[Call]:
        """Supports host arrays."""
        torch = self.library
        a, b, out = (torch.from_numpy(array) for array in (case.a, case.b, case.out))
        if case.op == "add":
            return lambda: torch.add(a, b, out=out)
        scalar = out[:1].reshape(())
        return lambda: torch.dot(a, b, out=scalar)


class CuPy(Peer):
    """CuPy: `set`, the operation, `get`."""

    name, module, on_gpu = "CuPy", "cupy", True

    def call(self, case: Case) -> Optional[Call]:
        """Supports host arrays, through device arrays, and device arrays."""
        cupy = self.library
        a, b, out = (cupy.asarray(memory) for memory in case.buffers)
        scalar = out[:1].reshape(())
        wait = cupy.cuda.Stream.null.synchronize
        if case.kind == "device":
            if case.op == "add":
                return lambda: (cupy.add(a, b, out), wait())
            return lambda: (cupy.dot(a, b, out=scalar), wait())
        put = self.copies_in(case, a, b)
        if case.op == "dot":
            return lambda: (put(), case.out.__setitem__(0, cupy.dot(a, b, out=scalar).item()))
        get = self.copy_out(case, out)
        return lambda: (put(), cupy.add(a, b, out), get())

    def copies_in(self, case: Case, a, b) -> Call:
        """Copies both inputs."""
        if case.kind == "pageable":
            return lambda: (a.set(case.a), b.set(case.b))
        stream = self.library.cuda.Stream.null
        pairs = [(a.data, c_void_p(case.a.ctypes.data)), (b.data, c_void_p(case.b.ctypes.data))]
        size = case.a.nbytes
        return lambda: [to.copy_from_host_async(host, size, stream) for to, host in pairs]

    def copy_out(self, case: Case, out) -> Call:
        """Copies the output back and waits for it."""
        if case.kind == "pageable":
            return lambda: out.get(out=case.out)
        stream = self.library.cuda.Stream.null
        to, size = c_void_p(case.out.ctypes.data), case.out.nbytes
        return lambda: (out.data.copy_to_host_async(to, size, stream), stream.synchronize())


class TorchCuda(Peer):
    """PyTorch on the GPU: `copy_`, the operation with `out=`, `copy_`."""

    name, module, on_gpu = "PyTorch CUDA", "torch", True

    def __init__(self) -> None:
        super().__init__()
        if not self.library.cuda.is_available():
            raise RuntimeError("this PyTorch sees no GPU")

    def call(self, case: Case) -> Optional[Call]:
        """Supports host arrays, through device arrays, and device arrays."""
        torch = self.library
        a, b, out = (torch.as_tensor(memory, device="cuda") for memory in case.buffers)
        scalar = out[:1].reshape(())
        wait = torch.cuda.current_stream().synchronize
        if case.kind == "device":
            if case.op == "add":
                return lambda: (torch.add(a, b, out=out), wait())
            return lambda: (torch.dot(a, b, out=scalar), wait())
        host_a, host_b, host_out = map(torch.from_numpy, (case.a, case.b, case.out))
        pinned = case.kind == "pinned"

        def put() -> None:
            a.copy_(host_a, non_blocking=pinned)
            b.copy_(host_b, non_blocking=pinned)

        if case.op == "dot":
            return lambda: (put(), case.out.__setitem__(0, torch.dot(a, b, out=scalar).item()))

        def add() -> None:
            put()
            torch.add(a, b, out=out)
            host_out.copy_(out, non_blocking=pinned)
            wait()

        return add


class Numba(Peer):
    """Kernels written in Python: one element per thread; reductions by blocks and atomics."""

    name, module, on_gpu = "Numba", "numba", True
    threads = 256

    def __init__(self) -> None:
        os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
        # Numba 0.68 uses a name that NumPy 2.5 removed.
        if not hasattr(np, "row_stack"):
            np.row_stack = np.vstack
        super().__init__()
        self.cuda = cuda = importlib.import_module("numba.cuda")
        if not cuda.is_available():
            raise RuntimeError("Numba finds no GPU")

        @cuda.jit
        def add(a, b, out):
            i = cuda.grid(1)
            if i < out.size:
                out[i] = a[i] + b[i]

        @cuda.jit
        def dot(a, b, out):
            total = a[0] - a[0]
            for i in range(cuda.grid(1), a.size, cuda.gridsize(1)):
                total += a[i] * b[i]
            half = 16
            while half > 0:
                total += cuda.shfl_down_sync(0xFFFFFFFF, total, half)
                half //= 2
            if cuda.laneid == 0:
                cuda.atomic.add(out, 0, total)

        self.kernels = {"add": add, "dot": dot}

    def call(self, case: Case) -> Optional[Call]:
        """Supports host arrays, through device arrays, and device arrays."""
        cuda = self.cuda
        a, b, out = (cuda.as_cuda_array(memory) for memory in case.buffers)
        # Without a stream Numba waits for every copy, as pageable memory requires.
        stream = 0 if case.kind == "pageable" else cuda.stream()
        wait = cuda.synchronize if stream == 0 else stream.synchronize
        blocks = math.ceil(case.n / self.threads)
        if case.op == "dot":
            blocks = min(blocks, 16 * cuda.get_current_device().MULTIPROCESSOR_COUNT)
        kernel = self.kernels[case.op][blocks, self.threads, stream]
        result, zero = out[:1], np.zeros(1, TYPES[case.dtype])

        def work() -> None:
            if case.op == "dot":
                result.copy_to_device(zero, stream=stream)
            kernel(a, b, result if case.op == "dot" else out)

        def call() -> None:
            a.copy_to_device(case.a, stream=stream)
            b.copy_to_device(case.b, stream=stream)
            work()
            if case.op == "dot":
                result.copy_to_host(case.out[:1], stream=stream)
            else:
                out.copy_to_host(case.out, stream=stream)
            wait()

        return (lambda: (work(), wait())) if case.kind == "device" else call


class Naive(Peer):
    """C code that allocates, copies, launches, copies back and frees in each call."""

    name, on_gpu = "naive C", True

    def __init__(self, compiled: Compiled) -> None:
        self.compiled, self.version, self.opened = compiled, "benches/naive.c", {}

    def contender(self, case: Case) -> Optional[Contender]:
        """Supports host arrays, called from C."""
        if case.kind == "device":
            return None
        kernel = f"{'fma_dot' if case.op == 'dot' else 'plain_add'}_{case.dtype}"
        if kernel not in self.opened:
            reduces, element = case.op == "dot", case.a.itemsize
            self.opened[kernel] = self.compiled.open(IMAGE, kernel, element, reduces)
        batch = self.compiled.naive_batch(self.opened[kernel], case.addresses(), case.n)
        return Contender(self.name, batch)


class PlainC(Peer):
    """The loop that a C program would use instead, compiled with -O3 for this processor."""

    name = "plain C loop"

    def __init__(self, compiled: Compiled) -> None:
        self.compiled, self.version = compiled, "benches/calls.c"

    def contender(self, case: Case) -> Optional[Contender]:
        """Supports host arrays, on one core."""
        batch = self.compiled.plain_batch(case.op, case.dtype, case.addresses(), case.n)
        return Contender(self.name, batch)


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def installed(compiled: Compiled, has_gpu: bool) -> tuple[list[Peer], dict[str, str]]:
    """Returns the installed peers, and why others are missing."""
    peers, missing = [], {}
    for peer in (NumPy, NumExpr, TorchCpu, PlainC, CuPy, TorchCuda, Numba, Naive):
        if peer.on_gpu and not has_gpu:
            missing[peer.name] = "there is no GPU"
            continue
        try:
            peers.append(peer(compiled) if peer in (PlainC, Naive) else peer())
        except Exception as error:
            missing[peer.name] = f"{type(error).__name__}: {error}"
    return peers, missing
