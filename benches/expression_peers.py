"""gpuvec's expressions and the contenders that they are compared with, each in its best idiom."""

import ctypes
import importlib
import subprocess
import time
from collections.abc import Callable
from ctypes import c_void_p
from pathlib import Path
from typing import Any, Optional

import numpy as np
from bindings import Place, last_error, lib
from cases import TYPES as DTYPES
from cases import fill
from compiled import Compiled
from device import Device
from formulas import Compiled as Expression
from formulas_measured import TYPES, Formula
from gpuvec_calls import placed
from header import enumeration
from timing import Contender

GCC = ["gcc", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-shared", "-fPIC"]
WHERE = "#define where(c, x, y) ((c) ? (x) : (y))\n"


class Data:
    """Four inputs of numbers from 0.5 to 1.5 and an output, in memory of one kind."""

    def __init__(self, dtype: str, n: int, kind: str, device: Optional[Device] = None) -> None:
        self.dtype, self.n, self.kind, self.device = dtype, n, kind, device
        self.inputs: dict[str, Any] = {}
        host = np.empty(n, DTYPES[dtype])
        for seed, name in enumerate("abcd"):
            values = host if kind == "device" else self.empty()
            fill(values, seed)
            values += 0.5
            self.inputs[name] = self.there(values) if kind == "device" else values
        self.out = device.memory(n, DTYPES[dtype]) if kind == "device" else self.empty()
        self.out_address = address(self.out)

    def empty(self) -> np.ndarray:
        """Makes an array in host memory."""
        dtype = DTYPES[self.dtype]
        if self.kind == "pinned":
            return self.device.pinned(self.n, dtype)
        return np.zeros(self.n, dtype)

    def there(self, values: np.ndarray) -> Any:
        """Makes an array in device memory."""
        memory = self.device.memory(self.n, values.dtype)
        self.device.put(memory.address, values)
        return memory

    def of(self, formula: Formula) -> dict[str, Any]:
        """Returns a formula's inputs."""
        return {name: self.inputs[name] for name in formula.inputs}

    def close(self) -> None:
        """Frees the memory."""
        free = {"device": Device.free, "pinned": Device.free_pinned}.get(self.kind)
        for array in (*self.inputs.values(), self.out):
            if free:
                free(self.device, array)


def address(array: Any) -> int:
    """Returns the address of an array in any memory."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.address


def queued(call: Callable[[], object], wait: Callable[[], object]) -> Callable[[int], float]:
    """Makes a batch of calls from Python, and a wait for all of them."""

    def batch(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        return time.perf_counter() - start

    return batch


def nothing() -> None:
    """Waits for nothing."""


class Gpuvec:
    """gpuvec, called from C."""

    def __init__(self, compiled: Compiled, place: Place, name: str = "gpuvec") -> None:
        self.compiled, self.place, self.name = compiled, place, name

    def contender(self, formula: Formula, data: Data, n: Optional[int] = None) -> Contender:
        """Calls the formula on the first `n` elements: on device arrays in a stream."""
        number = enumeration("gpuvec_type")[TYPES[data.dtype][1]]
        expression = Expression(formula.text, dict.fromkeys(formula.inputs, number))
        inputs = data.of(formula).values()
        pointers = (c_void_p * len(inputs))(*map(address, inputs))
        on_device = data.kind == "device"
        stream = lib.gpuvec_stream_create(0) if on_device else None
        arguments = (expression.handle, ctypes.addressof(pointers), data.out_address)
        run = self.compiled.batch(lib.gpuvec_expr_run, arguments, n or data.n, stream)
        lib.gpuvec_set_placement(self.place)
        if self.place != Place.CPU and lib.gpuvec_expr_prepare(expression.handle, 0):
            raise RuntimeError(last_error())

        def batch(calls: int, _kept: object = pointers) -> float:
            start = time.perf_counter()
            seconds = run(calls)
            if not on_device:
                return seconds
            lib.gpuvec_stream_synchronize(stream)
            return time.perf_counter() - start

        return Contender(self.name, placed(self.place, batch))


class Eager:
    """A library of arrays, one operation after the other: NumPy, PyTorch or CuPy."""

    def __init__(
        self, module: str, name: str, array: Callable = lambda one: one, wait: Callable = nothing
    ) -> None:
        self.library, self.name = importlib.import_module(module), name
        self.array, self.wait = array, wait

    def functions(self) -> dict[str, Callable]:
        """Returns the library's functions by the language's names."""
        names = "sqrt exp log sin where sum mean min max argmin dot".split()
        functions = {name: getattr(self.library, name) for name in names}
        linear = self.library.linalg
        functions["norm"] = getattr(linear, "vector_norm", None) or linear.norm
        functions["count"] = self.library.count_nonzero
        return functions

    def contender(self, formula: Formula, data: Data) -> Contender:
        """Evaluates the formula as Python would."""
        code = compile(formula.text, formula.name, "eval")
        arrays = {name: self.array(array) for name, array in data.of(formula).items()}
        names = {**self.functions(), **arrays}
        return Contender(self.name, queued(lambda: eval(code, names), self.wait))


class CuPyKernels:
    """CuPy's kernels of one formula: ElementwiseKernel, and ReductionKernel for sums."""

    name = "CuPy kernel"

    def __init__(self) -> None:
        self.cupy = importlib.import_module("cupy")

    def contender(self, formula: Formula, data: Data) -> Contender:
        """Compiles the formula, without a change to the bits for exp and the like."""
        kernel = self.kernel(formula, data.dtype)
        arrays = [self.cupy.asarray(array) for array in data.of(formula).values()]
        out = self.cupy.asarray(data.out)
        if formula.text.startswith("sum("):
            out = out[:1].reshape(())
        wait = self.cupy.cuda.Stream.null.synchronize
        return Contender(self.name, queued(lambda: kernel(*arrays, out), wait))

    def kernel(self, formula: Formula, dtype: str) -> Any:
        """Returns the kernel of a formula."""
        element = DTYPES[dtype].__name__
        inputs = ", ".join(f"{element} {name}" for name in formula.inputs)
        text, name = formula.in_c(dtype), f"of_{hash((formula, dtype)) & 0xFFFFFFFF}"
        if text.startswith("sum("):
            parts = (text[4:-1], "a + b", "out = a", "0", name)
            return self.cupy.ReductionKernel(inputs, f"{element} out", *parts, preamble=WHERE)
        return self.cupy.ElementwiseKernel(
            inputs, f"{element} out", f"out = {text}", name, preamble=WHERE
        )


class NumExpr:
    """numexpr, where numbers have the arrays' type."""

    name = "numexpr"

    def __init__(self, threads: int) -> None:
        self.library = importlib.import_module("numexpr")
        self.library.set_num_threads(threads)

    def contender(self, formula: Formula, data: Data) -> Contender:
        """Evaluates the formula again, which was the last one to be compiled."""
        text, constants = formula.with_constants(DTYPES[data.dtype])
        names = {**data.of(formula), **constants}
        self.library.evaluate(text, names, out=data.out, casting="same_kind")
        return Contender(self.name, queued(lambda: self.library.re_evaluate(names), nothing))


class Fused:
    """One loop that gcc compiles for this processor, without contraction."""

    name = "gcc's loop"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run(["gcc", "--version"], check=True, capture_output=True)

    def contender(self, formula: Formula, data: Data) -> Contender:
        """Compiles the loop."""
        c_type = TYPES[data.dtype][0]
        inputs = "".join(f", const {c_type} *{name}_" for name in formula.inputs)
        loads = "".join(f"{c_type} {name} = {name}_[i]; " for name in formula.inputs)
        body = f"{loads}out[i] = {formula.in_c(data.dtype)};"
        source = self.folder / "loop.c"
        source.write_text(
            f"#include <math.h>\n#include <stddef.h>\n{WHERE}void loop(size_t n, "
            f"{c_type} *restrict out{inputs}) {{ for (size_t i = 0; i < n; ++i) {{ {body} }} }}\n"
        )
        library = self.folder / f"{abs(hash((formula, data.dtype)))}.so"
        subprocess.run([*GCC, source, "-o", library, "-lm"], check=True)
        loop = ctypes.CDLL(str(library)).loop
        pointers = [c_void_p(address(array)) for array in (data.out, *data.of(formula).values())]
        size = ctypes.c_size_t(data.n)
        return Contender(self.name, queued(lambda: loop(size, *pointers), nothing))
