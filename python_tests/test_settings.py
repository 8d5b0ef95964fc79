"""Placement and number of threads, by call and by environment."""

import pytest
from bindings import Place, Status, lib
from operations import FAMILY
from programs import run_python

DIGESTS = """
import hashlib
import numpy as np
from arrays import compute
from operations import sized
for operation, n in sized([1000, 65_536, 65_537, 300_001, 2_000_003], [300_001]):
    out = compute(operation, *operation.data(np.random.default_rng(n), n))
    print(operation, n, hashlib.sha256(out.tobytes()).hexdigest())
"""

STATUSES = """
import numpy as np
from bindings import last_error, lib
array = np.zeros(300_000, np.float32)
print(lib.vector_add(*[array.ctypes.data] * 3, array.size))
print(last_error())
print(lib.gpuvec_init())
print(lib.gpuvec_get_placement())
print(lib.gpuvec_set_placement(2), lib.vector_add(*[array.ctypes.data] * 3, array.size))
"""


def test_bits_do_not_depend_on_threads():
    """One, few and many threads, more than there are cores: the same bits."""
    expected = run_python(DIGESTS, GPUVEC_PLACEMENT="cpu", GPUVEC_NUM_THREADS="1")
    assert len(expected.splitlines()) == 3 * 5 + len(FAMILY)
    for threads in ("2", "3", "7", "32"):
        digests = run_python(DIGESTS, GPUVEC_PLACEMENT="cpu", GPUVEC_NUM_THREADS=threads)
        assert digests == expected, f"{threads} threads"
    assert run_python(DIGESTS) == expected


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_are_bounded(threads):
    """No more threads than asked for are made, or said to take part."""
    script = """
    import os
    import numpy as np
    from arrays import compute
    from bindings import last_run
    from operations import OPERATIONS
    before = len(os.listdir("/proc/self/task"))
    for _ in range(3):
        compute(OPERATIONS[0], *np.ones((2, 2_000_003), np.float32))
    print(last_run().threads, len(os.listdir("/proc/self/task")) - before + 1)
    """
    output = run_python(script, GPUVEC_PLACEMENT="cpu", GPUVEC_NUM_THREADS=str(threads))
    assert output.split() == [str(threads)] * 2


@pytest.mark.parametrize("value", ["0", "-1", "two", "", " 2", "2.0", "99999999999999999999"])
def test_wrong_number_of_threads(value):
    """It is an error that names the variable and its value, not another number."""
    output = run_python(STATUSES, GPUVEC_PLACEMENT="cpu", GPUVEC_NUM_THREADS=value)
    add, text, init, *_ = output.splitlines()
    assert int(add) == int(init) == Status.ERROR_ENVIRONMENT
    assert f"GPUVEC_NUM_THREADS is '{value}'" in text


@pytest.mark.parametrize("value", ["CPU", "gpu ", "", "0", "none"])
def test_wrong_placement(value):
    """It is an error that names the variable and its value, until a call chooses."""
    lines = run_python(STATUSES, GPUVEC_PLACEMENT=value).splitlines()
    add, text, init, placement, chosen = lines
    assert int(add) == int(init) == int(placement) == Status.ERROR_ENVIRONMENT
    assert f"GPUVEC_PLACEMENT is '{value}'" in text
    assert chosen == "0 0"


@pytest.mark.parametrize("name", [place.name.lower() for place in Place])
def test_placement_by_environment(name):
    """The variable chooses, and a call after it chooses anew."""
    script = """
    from bindings import lib
    print(lib.gpuvec_get_placement())
    for placement in (0, 1, 2):
        print(lib.gpuvec_set_placement(placement), lib.gpuvec_get_placement())
    """
    output = run_python(script, GPUVEC_PLACEMENT=name).split()
    assert list(map(int, output)) == [Place[name.upper()], 0, 0, 0, 1, 0, 2]


def test_placement_is_auto_unless_chosen():
    """Without a variable and a call it is auto."""
    output = run_python("from bindings import lib; print(lib.gpuvec_get_placement())")
    assert int(output) == Place.AUTO


def test_why_cpu_names_the_placement(on_cpu):
    """With placement cpu that is the reason, whatever devices there are."""
    assert lib.gpuvec_why_cpu() == b"placement cpu was chosen"
