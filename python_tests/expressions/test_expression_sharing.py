"""Expressions in several threads, in forked children, and destroyed while in use."""

import threading
from contextlib import ExitStack

import numpy as np
import pytest
from arrays import assert_same_bits
from bindings import Place, Status, last_error, lib, placed, why_cpu
from cuda_driver import Driver, HeldUp
from fork import in_child
from formulas import Compiled
from threads import in_threads

TEXT, INPUTS = "sqrt(a*a + b*b) - a", {"a": "f4", "b": "f4"}


def problem(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns inputs and the result."""
    a = np.linspace(-10, 10, n, dtype=np.float32)
    b = a[::-1].copy()
    return a, b, np.sqrt(a * a + b * b) - a


def check(compiled: Compiled, n: int) -> None:
    """Fails unless the expression gives the right result for `n` elements."""
    a, b, right = problem(n)
    out = np.empty_like(a)
    status = compiled.run([a.ctypes.data, b.ctypes.data], out.ctypes.data, n)
    assert status == Status.OK, last_error()
    assert_same_bits(out, right)


def test_one_expression_in_many_threads(placement):
    """Each thread has its own arrays, of another length."""
    with Compiled(TEXT, INPUTS) as compiled:
        in_threads(lambda number: [check(compiled, 1 + number * 9001) for _ in range(5)])


def test_the_same_text_in_many_threads(placement):
    """Threads compile, run and destroy the same texts, which the library remembers."""

    def work(number: int) -> None:
        for round_ in range(20):
            text = f"{TEXT} + {(number + round_) % 5} * 0"
            with Compiled(text, INPUTS) as compiled:
                check(compiled, 1000)

    in_threads(work)


def test_destroyed_while_in_use(placement):
    """A call that has begun is finished; one that begins later finds no expression."""
    a, b, right = problem(400_000)

    def work(number: int) -> None:
        outs = [np.empty_like(a) for _ in range(4)]
        for out in outs:
            pointers = [a.ctypes.data, b.ctypes.data]
            status = compiled.run(pointers, out.ctypes.data, a.size)
            if number == 0:
                lib.gpuvec_expr_destroy(compiled.handle)
            assert status in (Status.OK, Status.ERROR_HANDLE), last_error()
            if status == Status.OK:
                assert_same_bits(out, right)

    for _ in range(5):
        compiled = Compiled(TEXT, INPUTS)
        in_threads(work, 4)


def test_more_texts_than_the_library_remembers(placement):
    """Handles stay good whatever is compiled after them."""
    with Compiled(TEXT, INPUTS) as compiled:
        check(compiled, 100)
        for number in range(300):
            with Compiled(f"a + {number}", {"a": "i4"}) as other:
                i = np.arange(50, dtype=np.int32)
                status = other.run([i.ctypes.data], i.ctypes.data, i.size)
                assert status == Status.OK, last_error()
                assert (i == np.arange(50) + number).all()
        check(compiled, 100)


@pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")
def test_queued_work_outlives_its_kernel(resources, on_gpu):
    """The driver unloads the kernels of expressions that are gone after it has run them."""
    n, rounds = 200_003, 20
    values = np.arange(n, dtype=np.float32) % 100
    x = resources.memory("device", values.nbytes)
    x.put(values)
    stream = lib.gpuvec_stream_create(0)
    for number in range(rounds):
        with Compiled(f"x + {number}", {"x": "f4"}) as compiled:
            status = compiled.run([x.address], x.address, n, stream)
            assert status == Status.OK, last_error()
    for number in range(200):
        with Compiled(f"x - {number}", {"x": "f4"}) as other:
            assert lib.gpuvec_expr_prepare(other.handle, 0) == Status.OK, last_error()
    assert lib.gpuvec_stream_synchronize(stream) == Status.OK, last_error()
    assert lib.gpuvec_stream_destroy(stream) == Status.OK
    assert_same_bits(x.get(np.float32), values + np.float32(sum(range(rounds))))


@pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")
def test_calls_do_not_wait_for_the_kernels_of_others(on_gpu):
    """Such a call would wait for work in flight if it unloaded a kernel that nothing can use."""
    not_ready = 600
    with Compiled(TEXT, INPUTS) as compiled:
        check(compiled, 10_000)
    driver, idle = Driver(), lib.gpuvec_stream_create(0)
    held = HeldUp(driver)
    try:
        for number in range(1000):
            with Compiled(f"a - {number}", {"a": "f4"}):
                pass
        assert lib.gpuvec_stream_destroy(idle) == Status.OK
        with driver.entered():
            assert driver.driver.cuStreamQuery(held.stream) == not_ready
    finally:
        held.destroy()


def test_in_a_forked_child():
    """A child can use its parent's handles, on its cores, and compiles other texts."""
    with placed(Place.AUTO), Compiled(TEXT, INPUTS) as compiled:
        check(compiled, 600_000)

        def child() -> None:
            check(compiled, 600_000)
            assert lib.gpuvec_expr_prepare(compiled.handle, 0) == Status.OK, last_error()
            with Compiled(f"{TEXT} + 0", INPUTS) as other:
                check(other, 1000)

        in_child(child)
        check(compiled, 1000)


def test_forked_while_others_compile():
    """No lock of the library is held in a child."""

    def in_the_child() -> None:
        with Compiled(f"{TEXT} + 1 * 0", INPUTS) as compiled:
            check(compiled, 100)

    def work(number: int) -> None:
        for round_ in range(10):
            if number == 0:
                in_child(in_the_child)
            else:
                with Compiled(f"{TEXT} + {round_ % 3} * 0", INPUTS) as compiled:
                    check(compiled, 100)

    with placed(Place.CPU):
        in_threads(work, 4)


# More operations than any ordinary expression has: kernels take milliseconds to write.
LONG = "sum(" + " + ".join(f"a / (a + {k})" for k in range(1, 900)) + ")"


@pytest.mark.parametrize("use", ["text", "prepare"])
def test_forked_while_another_thread_writes_kernels(use):
    """A child that needs the same kernels writes its own."""

    def write(kernels: list[Compiled], begins: threading.Event) -> None:
        begins.set()
        for compiled in kernels:
            if use == "text":
                compiled.text("PTX")
            else:
                assert lib.gpuvec_expr_prepare(compiled.handle, 0) == Status.OK, last_error()

    def write_all(kernels: list[Compiled]) -> None:
        for compiled in kernels:
            compiled.text("PTX")

    # A real driver compiles each for half a second.
    rounds, count = (8, 20) if use == "text" else (3, 4)
    for round_ in range(rounds):
        with ExitStack() as stack:
            numbers = range(1000 + count * round_, 1000 + count * (round_ + 1))
            texts = [LONG.replace("899", str(number)) for number in numbers]
            kernels = [stack.enter_context(Compiled(text, {"a": "f8"})) for text in texts]
            begins = threading.Event()
            writer = threading.Thread(target=write, args=(kernels, begins))
            writer.start()
            begins.wait()
            in_child(lambda kernels=kernels: write_all(kernels))
            writer.join()
