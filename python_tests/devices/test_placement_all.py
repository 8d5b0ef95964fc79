"""Placement all: cores and GPUs take chunks of the same call."""

import numpy as np
import pytest
from arrays import assert_same_bits, call, filled, output
from bindings import Backend, PathBit, Place, last_error, last_run, lib, placed, why_cpu
from on_fake_driver import needs_fake_driver, run
from operations import OPERATIONS, named, repeated
from programs import run_python

# More than 16 MiB in each array; shorter arrays stay on the cores.
LONG = {4: 5_000_003, 8: 2_500_001}
ON_GPUS = PathBit.DMA | PathBit.MAPPED
ON_CORES = PathBit.CORES | PathBit.CALLING_CORE

each_operation = pytest.mark.parametrize(
    "operation",
    [
        *OPERATIONS[:3],
        *map(named, ("gpuvec_axpy_f64", "gpuvec_mul_i64", "gpuvec_sum_i32", "gpuvec_dot_f64")),
    ],
    ids=str,
)


@pytest.fixture(autouse=True)
def everywhere():
    """Sets placement `all` for the test."""
    with placed(Place.ALL):
        yield


def long(operation) -> int:
    """Returns the length of arrays that cores and GPUs share."""
    return LONG[np.dtype(operation.dtype).itemsize]


def check(operation, n: int, kind: str) -> None:
    """Fails unless a call on arrays of a kind stores the right bits and nothing else."""
    values = repeated(operation, n)
    a, b = (filled(kind, array) for array in values)
    out = output(operation, kind, n)
    assert call(operation, a.array, b.array, out.array) == 0, last_error()
    assert_same_bits(out.array, operation.oracle(*values))
    assert all(array.guards_are_intact() for array in (a, b, out))


@pytest.mark.long
@each_operation
@pytest.mark.parametrize("kind", ["pinned", "pinned+3"])
def test_long_page_locked_arrays(operation, kind):
    """Any division of the chunks results in the same bits, and nothing is copied on the host."""
    for _ in range(3):
        check(operation, long(operation), kind)
        ran = last_run()
        assert ran.bytes_staged == 0 and ran.chunks > 1 and ran.threads > 0
        assert ran.path & (ON_CORES | ON_GPUS)
        assert (ran.devices != 0) == (ran.backend == Backend.GPU)
        if why_cpu():
            assert ran.backend == Backend.CPU and not ran.path & ON_GPUS


@pytest.mark.long
@each_operation
def test_other_arrays_stay_on_the_cores(operation):
    """The cores are faster on short arrays, and on arrays that a GPU would need staged."""
    for kind, n in (("pageable", long(operation)), ("pageable+7", 300_001), ("pinned", 300_001)):
        check(operation, n, kind)
        assert last_run().backend == Backend.CPU and last_run().bytes_staged == 0
    check(operation, 1000, "pinned")
    assert last_run().path == PathBit.CALLING_CORE


@pytest.mark.parametrize("which", ["a", "b"])
def test_in_place(which):
    operation = OPERATIONS[0]
    values = repeated(operation, long(operation))
    arrays = dict(zip("ab", (filled("pinned", array) for array in values)))
    a, b = (array.array for array in arrays.values())
    assert call(operation, a, b, arrays[which].array) == 0, last_error()
    assert_same_bits(arrays[which].array, operation.oracle(*values))
    assert all(array.guards_are_intact() for array in arrays.values())


def test_memory_of_a_gpu_is_used_there(resources):
    """Arrays in a GPU's memory are computed there, as with placement auto."""
    if why_cpu():
        pytest.skip(why_cpu())
    operation = OPERATIONS[0]
    a, b = repeated(operation, 100)
    arrays = [resources.array("device", values) for values in (a, b, a)]
    assert lib.vector_add(*(array.address for array in arrays), 100) == 0, last_error()
    assert last_run().backend == Backend.GPU
    assert_same_bits(arrays[2].get(a.dtype), operation.oracle(a, b))


def test_the_environment_selects_it():
    script = "from bindings import lib\nprint(lib.gpuvec_get_placement())"
    assert int(run_python(script, GPUVEC_PLACEMENT="all")) == Place.ALL


@needs_fake_driver
@pytest.mark.parametrize("kind", ["pinned", "pinned+3"])
def test_cores_and_every_gpu_take_part(kind):
    """Over several calls each worker gets a chunk, because a free worker takes the next one."""
    run(
        f"""
from bindings import PathBit
lib.gpuvec_set_placement(Place.ALL)
seen = [0, 0]
for _ in range(40):
    for which, operation in enumerate(PAIR):
        assert attempt(operation, LONG, "{kind}") == (Status.OK, "")
        seen[which] |= last_run().devices | (8 if last_run().path & PathBit.CORES else 0)
    if seen == [15, 15]:
        break
else:
    raise AssertionError(seen)
check_in_place("{kind}")
""",
        variables={"GPUVEC_NUM_THREADS": "4"},
        DEVICES=3,
    )


# `failing` makes a call while the driver fails as planned, checks that it writes nothing wrong, and
# returns its status.
FAILING = """
def failing(plan, operation, in_place=False):
    a, b = (filled("pinned", values) for values in repeated(operation, LONG))
    out = a if in_place else output(operation, "pinned", LONG)
    fake_driver.plan(plan)
    status = Status(call(operation, a.array, b.array, out.array))
    fake_driver.plan("")
    if status == Status.OK:
        assert_same_bits(out.array, operation.oracle(*repeated(operation, LONG)))
    assert a.guards_are_intact() and b.guards_are_intact() and out.guards_are_intact()
    return status

lib.gpuvec_set_placement(Place.ALL)
assert why_cpu() == ""
"""


@pytest.mark.long
@needs_fake_driver
def test_cores_finish_the_chunks_of_a_failed_gpu():
    """The result is right, whichever call of the driver fails first, and after a device is lost."""
    run(
        FAILING
        + """
for number in range(1, 40, 2):
    for operation in PAIR:
        assert failing(f"{number}=2+", operation) == Status.OK, number
for number in (30, 3):
    assert failing(f"{number}=700+", PAIR[0]) == Status.OK, number
assert attempt(PAIR[1], LONG)[0] == Status.OK
""",
    )


@needs_fake_driver
def test_work_in_place_of_a_failed_gpu():
    """The call fails or is right: inputs that may have been overwritten are not used again."""
    run(
        FAILING
        + """
seen = {failing(f"{number}=2+", PAIR[0], in_place=True) for number in range(8, 60, 2)}
assert seen <= {Status.OK, Status.ERROR_OUT_OF_MEMORY}, seen
""",
    )
