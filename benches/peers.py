"""The libraries and loops that gpuvec is compared with, each in its best idiom.

A peer's `contender(data)` makes the call of a case, which leaves the result in the case's output,
and raises an exception if the peer does not support the case. Peers on the GPU use preallocated
device arrays, and copy asynchronously if host memory is pinned.
"""

import ast
import importlib
import os
import re
import tempfile
from collections import Counter
from ctypes import c_void_p
from pathlib import Path
from typing import Any, Optional

import numpy as np
from calls import Loops, compiled
from cases import C_TYPES, DTYPES, REDUCTION, Data, Formula, address
from device import device_if_any, image
from harness import Call, Contender, batch_of, threads

WHERE = "#define where(c, x, y) ((c) ? (x) : (y))\n"
OPERATORS = {
    ast.Add: ("add", "+"),
    ast.Sub: ("subtract", "-"),
    ast.Mult: ("multiply", "*"),
    ast.Div: ("divide", "/"),
}
# NumPy's names of functions of the language.
NAMES = {
    **{f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")},
    **{"pow": "power", "count": "count_nonzero"},
}


class Unsupported(Exception):
    """A peer has no such call."""


class Peer:
    """A library or loop to compare with; its constructor raises if it is not installed."""

    name = module = version = ""
    on_gpu = False

    def __init__(self) -> None:
        if self.module:
            self.library = importlib.import_module(self.module)
            self.version = self.library.__version__

    def contender(self, data: Data) -> Contender:
        """Returns calls of a case."""
        if data.case.kind == "device" and not self.on_gpu:
            raise Unsupported
        return Contender(self.name, batch_of(self.call(data)))

    def call(self, data: Data) -> Call:
        """Returns a function that makes the call once."""
        raise NotImplementedError


def source(text: str, is_reduction: bool) -> list[str]:
    """Returns Python that computes a formula, one operation after the other, as its author would.

    Repeated parts are computed once. Other operations write into the output or, to the right of an
    operator, into a scratch array.
    """
    tree, lines, known = ast.parse(text, mode="eval").body, [], {}
    counts: Counter[str] = Counter()

    def count(node: ast.AST) -> None:
        # The parts of a repeated part are counted once.
        counts[ast.dump(node)] += 1
        if counts[ast.dump(node)] == 1:
            for child in ast.iter_child_nodes(node):
                count(child)

    def value(node: ast.AST, into: Optional[str] = None) -> str:
        # Writes the lines that compute a node; returns its name or text.
        dump = ast.dump(node)
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, (ast.Constant, ast.UnaryOp)):
            return f"({ast.unparse(node)})"
        if counts[dump] == 1:
            return written(node, into)
        if dump not in known:
            result = written(node, None)
            known[dump] = f"t{len(known)}"
            lines.append(f"{known[dump]} = {result}")
        return known[dump]

    def written(node: ast.AST, into: Optional[str]) -> str:
        # Writes an operation; returns the output, or the text of the operation.
        if isinstance(node, ast.Compare):
            return f"({value(node.left)} < {value(node.comparators[0])})"
        if isinstance(node, ast.BinOp):
            function, operator = OPERATORS[type(node.op)]
            left = value(node.left, into)
            right = value(node.right, "scratch" if into == "out" else None)
            if into is None:
                return f"({left} {operator} {right})"
            if isinstance(node.left, (ast.Constant, ast.UnaryOp)):
                left = f"scalar({left})"
            arguments = f"{left}, {right}"
        else:
            assert isinstance(node, ast.Call)
            function = node.func.id
            is_reduction = bool(REDUCTION.match(f"{function}("))
            first_into = "out" if is_reduction else into if len(node.args) == 1 else None
            first, *others = node.args
            arguments = ", ".join([value(first, first_into), *map(value, others)])
            if into is None or function == "where" or is_reduction:
                return f"{function}({arguments})"
        lines.append(f"{function}({arguments}, out={into})")
        return into

    count(tree)
    result = value(tree, None if is_reduction else "out")
    stores = [] if is_reduction or result == "out" else [f"out[...] = {result}"]
    return [*lines, *stores, f"return {result}"]


def functions_of(library: Any, text: str) -> dict[str, Any]:
    """Returns a library's functions that a formula needs, by the language's names."""
    norm = getattr(library.linalg, "vector_norm", None) or library.linalg.norm
    names: dict[str, Any] = {"abs": abs, "norm": norm}
    operators = (function for function, _ in OPERATORS.values())
    for name in {*operators, *re.findall(r"(\w+)\(", text)} - names.keys():
        of_library = getattr(library, name, None)
        names[name] = of_library or getattr(library, NAMES.get(name, name))
    return names


class Eager(Peer):
    """A library of arrays, one operation after the other."""

    def array(self, memory: Any) -> Any:
        """Returns an array of the library on the same memory."""
        return memory

    def scalar(self, number: float) -> Any:
        """Returns a number to the left of an operator."""
        return number

    def evaluate(self, data: Data, inputs: dict[str, Any], out: Any) -> Call:
        """Returns a function that evaluates a case's formula."""
        formula = data.formula
        names = {**functions_of(self.library, formula.text), **inputs, "out": out}
        names["scalar"] = self.scalar
        body = "".join(f"    {line}\n" for line in source(formula.text, formula.is_reduction()))
        if "scratch" in body:
            names["scratch"] = self.library.empty_like(out)
        exec(f"def evaluate():\n{body}", names)
        return names["evaluate"]

    def call(self, data: Data) -> Call:
        """Supports host arrays."""
        inputs = {name: self.array(array) for name, array in data.inputs.items()}
        evaluate = self.evaluate(data, inputs, self.array(data.out))
        return stored_on_host(evaluate, data) if data.formula.is_reduction() else evaluate


def stored_on_host(evaluate: Call, data: Data) -> Call:
    """Returns a function that stores a reduction's value in host memory."""
    out = data.out[data.compared()].view(np.int64 if data.formula.is_integer() else data.out.dtype)
    return lambda: out.__setitem__(0, evaluate().item())


class NumPy(Eager):
    """NumPy on one core, but for its BLAS."""

    name, module = "NumPy", "numpy"


class TorchCpu(Eager):
    """PyTorch on all cores."""

    name, module = "PyTorch CPU", "torch"

    def __init__(self) -> None:
        super().__init__()
        self.library.set_num_threads(threads())

    def array(self, memory: Any) -> Any:
        """Returns a tensor."""
        return self.library.from_numpy(memory)

    def scalar(self, number: float) -> Any:
        """Returns a tensor without axes, of a type that no array is converted to."""
        return self.library.tensor(number, dtype=self.library.float32)


class NumExpr(Peer):
    """numexpr on all cores, where numbers have the arrays' type."""

    name, module = "numexpr", "numexpr"

    def __init__(self) -> None:
        os.environ.setdefault("NUMEXPR_MAX_THREADS", str(threads()))
        super().__init__()
        self.library.set_num_threads(threads())

    def call(self, data: Data) -> Call:
        """Supports host arrays; the library remembers the compiled text."""
        formula, out, evaluate = data.formula, data.out, self.library.evaluate
        text, constants = formula.with_constants(DTYPES[data.case.dtype])
        text = text.replace("dot(a, b)", "sum(a * b)").replace("pow(a, b)", "a ** b")
        names = {**data.inputs, **constants}
        if formula.is_reduction():
            if not text.startswith("sum("):
                raise Unsupported
            return lambda: out.__setitem__(0, evaluate(text, names))
        return lambda: evaluate(text, names, out=out, casting="same_kind")


class OnGpu(Eager):
    """A library that computes in device memory, with copies for host arrays."""

    on_gpu = True
    wait: Call

    def put(self, arrays: list[Any], data: Data) -> Call:
        """Returns a function that copies the inputs to the device."""
        raise NotImplementedError

    def get(self, array: Any, data: Data) -> Call:
        """Returns a function that copies the output back, and waits for it."""
        raise NotImplementedError

    def call(self, data: Data) -> Call:
        """Supports host arrays, through device arrays, and device arrays."""
        data.arrays.device.enter()
        memory, out_memory = data.buffers()
        inputs = {name: self.array(array) for name, array in memory.items()}
        out = self.array(out_memory)
        evaluate = self.evaluate(data, inputs, out)
        if data.case.kind == "device":
            store = self.stored(evaluate, data, out)
            return lambda: (store(), self.wait())
        put = self.put(list(inputs.values()), data)
        if data.formula.is_reduction():
            return stored_on_host(lambda: (put(), evaluate())[1], data)
        get = self.get(out, data)
        return lambda: (put(), evaluate(), get())

    def queued(self, data: Data) -> Contender:
        """Returns calls on device arrays that are waited for at the end of a batch."""
        memory, out = data.buffers()
        inputs = {name: self.array(array) for name, array in memory.items()}
        there = self.array(out)
        call = self.stored(self.evaluate(data, inputs, there), data, there)
        return Contender(self.name, batch_of(call, self.wait))

    def stored(self, evaluate: Call, data: Data, out: Any) -> Call:
        """Returns a function that stores a reduction's value while results are compared."""
        if not data.formula.is_reduction():
            return evaluate
        result = out[data.compared()]
        if data.formula.is_integer():
            result = result.view(self.library.int64)

        def call() -> None:
            value = evaluate()
            if data.is_compared:
                result[...] = value

        return call


class CuPy(OnGpu):
    """CuPy: `set`, the operations, `get`."""

    name, module = "CuPy", "cupy"

    def __init__(self) -> None:
        super().__init__()
        self.library.zeros(1).sum().get()
        self.stream = self.library.cuda.Stream.null
        self.wait = self.stream.synchronize

    def array(self, memory: Any) -> Any:
        """Returns an array of CuPy's."""
        return self.library.asarray(memory)

    def put(self, arrays: list[Any], data: Data) -> Call:
        """Copies asynchronously from pinned memory."""
        hosts = list(data.inputs.values())
        pairs = list(zip(arrays, hosts))
        if data.case.kind == "pageable":
            return lambda: [array.set(host) for array, host in pairs]
        copies = [(array.data, c_void_p(host.ctypes.data), host.nbytes) for array, host in pairs]
        return lambda: [
            to.copy_from_host_async(host, size, self.stream) for to, host, size in copies
        ]

    def get(self, array: Any, data: Data) -> Call:
        """Copies asynchronously to pinned memory."""
        if data.case.kind == "pageable":
            return lambda: array.get(out=data.out)
        to, size = c_void_p(data.out.ctypes.data), data.out.nbytes
        return lambda: (array.data.copy_to_host_async(to, size, self.stream), self.wait())


class TorchCuda(OnGpu):
    """PyTorch on the GPU: `copy_`, the operations, `copy_`."""

    name, module = "PyTorch CUDA", "torch"

    def __init__(self) -> None:
        super().__init__()
        if not self.library.cuda.is_available():
            raise RuntimeError("this PyTorch sees no GPU")
        self.wait = self.library.cuda.current_stream().synchronize

    def array(self, memory: Any) -> Any:
        """Returns a tensor."""
        return self.library.as_tensor(memory, device="cuda")

    scalar = TorchCpu.scalar

    def put(self, arrays: list[Any], data: Data) -> Call:
        """Copies asynchronously from pinned memory."""
        pairs = list(zip(arrays, map(self.library.from_numpy, data.inputs.values())))
        is_pinned = data.case.kind == "pinned"
        return lambda: [array.copy_(host, non_blocking=is_pinned) for array, host in pairs]

    def get(self, array: Any, data: Data) -> Call:
        """Copies asynchronously to pinned memory."""
        host, is_pinned = self.library.from_numpy(data.out), data.case.kind == "pinned"
        return lambda: (host.copy_(array, non_blocking=is_pinned), self.wait())


class CuPyKernel(CuPy):
    """CuPy's kernels of one formula: ElementwiseKernel, and ReductionKernel for sums."""

    name = "CuPy kernel"

    def evaluate(self, data: Data, inputs: dict[str, Any], out: Any) -> Call:
        """Compiles the formula, without a change to the bits for exp and the like."""
        formula, dtype = data.formula, data.case.dtype
        element, text = DTYPES[dtype].__name__, formula.in_c(dtype)
        declared = ", ".join(f"{element} {name}" for name in formula.inputs)
        arrays, name = list(inputs.values()), f"of_{hash((formula, dtype)) & 0xFFFFFFFF}"
        if not formula.is_reduction():
            parts = (f"out = {text}", name)
            kernel = self.library.ElementwiseKernel(
                declared, f"{element} out", *parts, preamble=WHERE
            )
            return lambda: kernel(*arrays, out)
        if not text.startswith("sum("):
            raise Unsupported
        parts = (text[4:-1], "a + b", "out = a", "0", name)
        kernel = self.library.ReductionKernel(declared, f"{element} out", *parts, preamble=WHERE)
        scalar = out[:1].reshape(())
        return lambda: kernel(*arrays, scalar)


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

    def call(self, data: Data) -> Call:
        """Supports host arrays, through device arrays, and device arrays."""
        cuda, case = self.cuda, data.case
        if case.call not in self.kernels:
            raise Unsupported
        memory, out_memory = data.buffers()
        a, b = map(cuda.as_cuda_array, memory.values())
        out = cuda.as_cuda_array(out_memory)
        # Without a stream Numba waits for every copy, as pageable memory requires.
        stream = 0 if case.kind == "pageable" else cuda.stream()
        wait = cuda.synchronize if stream == 0 else stream.synchronize
        is_dot, blocks = case.call == "dot", -(-case.n // self.threads)
        if is_dot:
            blocks = min(blocks, 16 * cuda.get_current_device().MULTIPROCESSOR_COUNT)
        kernel = self.kernels[case.call][blocks, self.threads, stream]
        zero, to = np.zeros(1, DTYPES[case.dtype]), out[:1] if is_dot else out

        def work() -> None:
            if is_dot:
                to.copy_to_device(zero, stream=stream)
            kernel(a, b, to)

        def call() -> None:
            for array, host in zip((a, b), data.inputs.values()):
                array.copy_to_device(host, stream=stream)
            work()
            to.copy_to_host(data.out[:1] if is_dot else data.out, stream=stream)
            wait()

        return (lambda: (work(), wait())) if case.kind == "device" else call


class NaiveC(Peer):
    """C code that allocates, copies, launches, copies back and frees in each call."""

    name, on_gpu, version = "naive C", True, "benches/calls.c"

    def contender(self, data: Data) -> Contender:
        """Supports host arrays, called from C."""
        case, is_dot = data.case, data.case.call == "dot"
        if case.kind == "device" or case.call not in ("add", "dot"):
            raise Unsupported
        name = f"{'fma_dot' if is_dot else 'plain_add'}_{case.dtype}"
        opened = Loops().open(image(), name, data.out.itemsize, is_dot)
        addresses = (*map(address, data.inputs.values()), address(data.out))
        naive = Loops().built.naive_call
        return Contender(self.name, Loops().calls(naive, *addresses, case.n, opened))


class PlainC(Peer):
    """The loop that a C program would use instead, compiled with -O3 for this processor."""

    name, version = "plain C loop", "-O3 -march=native"
    # A sum has this number of accumulators; a single one is of type double.
    accumulators = 1

    def contender(self, data: Data) -> Contender:
        """Supports host arrays, on one core, called from C like an expression."""
        formula, case = data.formula, data.case
        text = formula.text.replace("dot(a, b)", "sum(a * b)")
        if case.kind == "device" or (formula.is_reduction() and not text.startswith("sum(")):
            raise Unsupported
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "loop.c"
            file.write_text(self.source(Formula("", text), case.dtype))
            built = compiled(file, "-ffp-contract=off", "-fno-math-errno")
        inputs = [*map(address, data.inputs.values())]
        pointers = (c_void_p * len(inputs))(*inputs)
        loop = Loops().calls(built.loop, None, pointers, address(data.out), case.n, None)
        return Contender(self.name, loop)

    def source(self, formula: Formula, dtype: str) -> str:
        """Returns the loop in C, with the parameters of gpuvec_expr_run."""
        c_type, count = C_TYPES[dtype][0], self.accumulators
        sum_type, names = "double" if count == 1 else c_type, list(enumerate(formula.inputs))
        loads = "".join(f"{c_type} {name} = {name}_[i]; " for _, name in names)
        body = f"for (size_t i = 0; i < n; i++) {{ {loads}to[i] = {formula.in_c(dtype)}; }}"
        if formula.is_reduction():
            term = Formula("", formula.text[4:-1]).in_c(dtype)
            term = term.replace("a * b", f"({sum_type})a * b")
            body = f"""
            {sum_type} sums[{count}] = {{0}}, sum = 0;
            size_t at = 0;
            for (; at + {count} <= n; at += {count})
                for (size_t k = 0, i = at; k < {count}; k++, i++) {{ {loads}sums[k] += {term}; }}
            for (size_t i = at; i < n; i++) {{ {loads}sum += {term}; }}
            for (int k = 0; k < {count}; k++) sum += sums[k];
            to[0] = ({c_type})sum;"""
        arrays = "".join(f"const {c_type} *{name}_ = arrays[{at}]; " for at, name in names)
        return f"""#include <math.h>
        #include <stddef.h>
        {WHERE}
        int loop(void *handle, const void *const *arrays, void *out, size_t n, void *last) {{
            (void)handle, (void)last;
            {arrays}{c_type} *to = out;
            {body}
            return 0;
        }}
        """


class VectorC(PlainC):
    """The same with sums of the elements' type in vectors."""

    name, accumulators = "vectors in C", 64


class PlainGpu(Peer):
    """A plain kernel of ceilings.cu on its fastest grid, launched and waited for in each call."""

    name, on_gpu, version = "plain GPU loop", True, "benches/ceilings.cu"
    kernels = {"add": "plain_add", "dot": "fma_dot", "sum": "plain_sum"}

    def call(self, data: Data) -> Call:
        """Supports device arrays; sums are added to the output, which is 0 when it is compared."""
        case, device, zero = data.case, data.arrays.device, np.zeros(1, data.arrays.dtype)
        name = self.kernels.get(case.call.split(",")[0])
        if case.kind != "device" or name is None:
            raise Unsupported
        kernel = device.kernel(f"{name}_{case.dtype}")
        inputs = [*map(address, data.inputs.values())]
        places = (inputs[0], inputs[-1], address(data.out))

        def call_on(waves: int) -> Call:
            grid = (device.multiprocessors * waves, 512)

            def call() -> None:
                if data.is_compared:
                    device.put(places[2], zero)
                device.launch(kernel, grid, places, case.n)
                device.synchronize(None)

            return call

        calls = [call_on(waves) for waves in (1, 4, 16)]
        return min(calls, key=lambda call: min(batch_of(call)(1) for _ in range(5)))


class ByIntegers(Peer):
    """The library's kernel of exact sums, by integers alone, as on GPUs with few units for f64."""

    name, on_gpu, version = "integers alone", True, "kernels"

    def call(self, data: Data) -> Call:
        """Supports device arrays; needs the images of make gpu-bundle."""
        exact = importlib.import_module("exact_kernels")
        kinds = {kind.name: kind for kind in importlib.import_module("corpus").KINDS}
        case, device = data.case, data.arrays.device
        kind = kinds.get(f"{data.formula.text.partition('(')[0]}_{case.dtype}")
        if case.kind != "device" or kind is None:
            raise Unsupported
        kernel, inputs = exact.ExactKernel(device, kind), [*map(address, data.inputs.values())]
        blocks, value = 8 * device.multiprocessors, kernel.value.address

        def call() -> None:
            kernel.launch(inputs[0], inputs[-1], case.n, blocks, exact.BY_INTEGERS, finish=True)
            device.copy(address(data.out), value, np.dtype(DTYPES[case.dtype]).itemsize)
            device.synchronize(None)

        return call


PEERS = {
    peer.name: peer
    for peer in (
        *(NumPy, NumExpr, TorchCpu, PlainC, VectorC),
        *(CuPy, CuPyKernel, TorchCuda, Numba, NaiveC, PlainGpu, ByIntegers),
    )
}


def installed(names: list[str]) -> tuple[list[Peer], dict[str, str]]:
    """Returns the installed peers of these, and why others are missing."""
    peers, missing = [], {}
    for name in names:
        if PEERS[name].on_gpu and device_if_any() is None:
            missing[name] = "there is no GPU"
            continue
        try:
            peers.append(PEERS[name]())
        except Exception as error:
            missing[name] = f"{type(error).__name__}: {error}"
    return peers, missing
