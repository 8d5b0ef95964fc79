"""Placement and number of threads, by call and by environment."""

from textwrap import dedent

import pytest
from bindings import Place, Status, lib
from header import prototypes
from operations import FAMILY
from programs import OWN_VARIABLES, run_python, run_silently

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
    """No more threads are started, or reported, than were asked for."""
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
    reported, started = map(int, output.split())
    assert 1 <= reported <= threads
    assert reported <= started <= threads


@pytest.mark.parametrize("value", ["0", "-1", "two", " 2", "2.0", "99999999999999999999"])
def test_wrong_number_of_threads(value):
    """A wrong number is an error that names the variable and its value."""
    output = run_python(STATUSES, GPUVEC_PLACEMENT="cpu", GPUVEC_NUM_THREADS=value)
    add, text, init, *_ = output.splitlines()
    assert int(add) == int(init) == Status.ERROR_ENVIRONMENT
    assert f"GPUVEC_NUM_THREADS is '{value}'" in text


# The number of threads in force, and of those that the library then has, the calling one included.
NUMBER_AND_THREADS = """
import os
from bindings import lib
before = len(os.listdir("/proc/self/task"))
assert lib.gpuvec_init() == 0
print(lib.gpuvec_get_num_threads(), len(os.listdir("/proc/self/task")) - before + 1)
"""


@pytest.mark.parametrize(
    "own, openmp, threads",
    [
        ("3", "5", 3),
        ("", "5", 5),
        (None, "5", 5),
        (None, " 4 , 3 ", 4),
        (None, "6,1000,1", 6),
        (None, "1", 1),
        (None, "1000", 256),
    ],
)
def test_variables_in_their_order(own, openmp, threads):
    """GPUVEC_NUM_THREADS counts before OMP_NUM_THREADS, and the first entry of its list counts."""
    variables = {"GPUVEC_NUM_THREADS": own, "OMP_NUM_THREADS": openmp}
    given = {name: value for name, value in variables.items() if value is not None}
    output = run_python(NUMBER_AND_THREADS, GPUVEC_PLACEMENT="cpu", **given)
    assert output.split() == [str(threads)] * 2


@pytest.mark.parametrize("value", ["", " ", "0", "-1", "two", "4,", "4,x", "2.5"])
def test_a_wrong_list_of_openmps_counts_as_unset(value):
    """OMP_NUM_THREADS is another library's variable: no value of it is an error here."""
    output = run_python(NUMBER_AND_THREADS, GPUVEC_PLACEMENT="cpu", OMP_NUM_THREADS=value)
    assert output == run_python(NUMBER_AND_THREADS, GPUVEC_PLACEMENT="cpu")


def test_a_wrong_number_of_threads_with_a_list_of_openmps():
    """The wrong variable of the library's own is the error, whatever OpenMP's is."""
    output = run_python(STATUSES, GPUVEC_NUM_THREADS="two", OMP_NUM_THREADS="3")
    add, text, *_ = output.splitlines()
    assert int(add) == Status.ERROR_ENVIRONMENT and "GPUVEC_NUM_THREADS is 'two'" in text


@pytest.mark.parametrize("value", ["CPU", "gpu ", " ", "0", "none"])
def test_wrong_placement(value):
    """A wrong placement is an error with the variable's name and value until a call chooses one."""
    lines = run_python(STATUSES, GPUVEC_PLACEMENT=value).splitlines()
    add, text, init, placement, chosen = lines
    assert int(add) == int(init) == int(placement) == Status.ERROR_ENVIRONMENT
    assert f"GPUVEC_PLACEMENT is '{value}'" in text
    assert chosen == "0 0"


@pytest.mark.parametrize("variable", OWN_VARIABLES)
def test_an_empty_variable_is_an_unset_one(variable):
    """`GPUVEC_PLACEMENT= program` runs with the default."""
    add, *_, placement, _ = run_python(STATUSES, **{variable: ""}).split("\n")[:5]
    assert int(add) == Status.OK and int(placement) == Place.AUTO


@pytest.mark.parametrize("name", [place.name.lower() for place in Place])
def test_placement_by_environment(name):
    """The variable sets the placement, and a later call changes it."""
    script = """
    from bindings import lib
    print(lib.gpuvec_get_placement())
    for placement in (0, 1, 2):
        print(lib.gpuvec_set_placement(placement), lib.gpuvec_get_placement())
    """
    output = run_python(script, GPUVEC_PLACEMENT=name).split()
    assert list(map(int, output)) == [Place[name.upper()], 0, 0, 0, 1, 0, 2]


# Queries that have no error of their own to report.
QUERIES = {
    "gpuvec_last_error",
    "gpuvec_last_status",
    "gpuvec_status_string",
    "gpuvec_get_placement",
    "gpuvec_get_thread_placement",
    "gpuvec_get_num_threads",
    "gpuvec_get_device",
    "gpuvec_why_cpu",
    "gpuvec_accumulator_bytes",
    "gpuvec_last_run",
    "gpuvec_device_count",
    "gpuvec_device_of",
    "gpuvec_version",
    "gpuvec_abi_version",
}
CHOICES = {
    "gpuvec_set_placement",
    "gpuvec_set_thread_placement",
    "gpuvec_set_num_threads",
    "gpuvec_set_device",
}
CALLS = sorted(set(prototypes()) - QUERIES - CHOICES)

# Calls each function with NULL and zeros, and with plausible memory and numbers.
CALL_EACH = """
import ctypes
from bindings import FUNCTIONS, Status, last_error, lib

memory = ctypes.create_string_buffer(1 << 16)

def plausible(types):
    pages = iter(range(-(-ctypes.addressof(memory) // 4096), 1 << 52))
    others = {ctypes.c_char_p: b"1"}
    return [
        4096 * next(pages) if ctype is ctypes.c_void_p else others.get(ctype, 1) for ctype in types
    ]

def nothing(types):
    return [None if ctype in (ctypes.c_void_p, ctypes.c_char_p) else 0 for ctype in types]

def answer(name, arguments):
    result, types = FUNCTIONS[name]
    return getattr(lib, name)(*arguments(types)), last_error()

def is_refused(name, text, arguments):
    lib.gpuvec_set_placement(-1)
    found, error = answer(name, arguments)
    is_status = FUNCTIONS[name][0] is ctypes.c_int32
    return found == (Status.ERROR_ENVIRONMENT if is_status else None) and text in error

def accepted(names, text):
    return [
        f"{name} with {arguments.__name__}"
        for name in names
        for arguments in (nothing, plausible)
        if not is_refused(name, text, arguments)
    ]
"""

WRONG = {
    "GPUVEC_NUM_THREADS": "two",
    "GPUVEC_PLACEMENT": "x",
    "GPUVEC_DEVICE": "-1",
    "GPUVEC_VECTORS": "sse",
    "GPUVEC_LOG": "calls",
}


def test_every_function_is_called_or_is_a_query():
    """The tests of wrong variables cover every function of the header, and every variable."""
    assert set(WRONG) == set(OWN_VARIABLES) - {"OMP_NUM_THREADS"}
    assert set(CALLS) | QUERIES | CHOICES == set(prototypes())
    assert len(CALLS) > len(FAMILY)


@pytest.mark.parametrize("variable", WRONG)
def test_a_wrong_variable_is_an_error_of_every_function(variable):
    """Every call fails with the variable's name and value, also a call with nothing to do."""
    text = f"{variable} is '{WRONG[variable]}'"
    script = f"print(*accepted({CALLS}, {text!r}), sep='\\n', end='')"
    assert run_python(CALL_EACH + script, **{variable: WRONG[variable]}) == ""


def test_a_chosen_placement_overrides_a_wrong_one():
    """After gpuvec_set_placement the variable does not matter, and every kind of call works."""
    script = """
    import numpy as np
    from host import check_all
    from bindings import Status, last_error, lib
    array = np.zeros(10, np.float32)
    add = lambda: lib.vector_add(*[array.ctypes.data] * 3, array.size)
    assert add() == lib.gpuvec_init() == Status.ERROR_ENVIRONMENT
    assert lib.gpuvec_set_placement(2) == Status.OK and last_error() == ""
    assert add() == lib.gpuvec_init() == Status.OK
    check_all()
    for create, destroy in (
        (lib.gpuvec_event_create, lib.gpuvec_event_destroy),
        (lambda: lib.gpuvec_stream_create(0), lib.gpuvec_stream_destroy),
        (lambda: lib.gpuvec_device_alloc(10, 0), lib.gpuvec_device_free),
    ):
        made = create()
        assert made and destroy(made) == Status.OK, last_error()
    """
    run_silently(script, GPUVEC_PLACEMENT="x")


def test_a_chosen_placement_leaves_a_wrong_number_of_threads():
    """gpuvec_set_placement itself works; every other call still names the wrong variable."""
    script = """
    assert lib.gpuvec_set_placement(2) == Status.OK and last_error() == ""
    for name in ("vector_add", "pinned_alloc"):
        found, error = answer(name, plausible)
        assert found in (None, Status.ERROR_ENVIRONMENT), name
        assert "GPUVEC_NUM_THREADS is 'two'" in error, name
    """
    run_silently(CALL_EACH + dedent(script), GPUVEC_NUM_THREADS="two")


def test_a_chosen_number_of_threads_overrides_a_wrong_one():
    """After gpuvec_set_num_threads the variable does not matter, until the number is 0 again."""
    script = """
    from host import check_all
    from bindings import Status, last_error, lib
    is_wrong = lambda: lib.gpuvec_init() == Status.ERROR_ENVIRONMENT
    assert is_wrong() and lib.gpuvec_get_num_threads() == 0
    assert lib.gpuvec_set_num_threads(-1) == Status.ERROR_VALUE and is_wrong()
    assert lib.gpuvec_set_num_threads(3) == Status.OK and last_error() == ""
    assert lib.gpuvec_get_num_threads() == 3
    check_all()
    assert lib.gpuvec_set_num_threads(0) == Status.OK and lib.gpuvec_get_num_threads() == 0
    assert is_wrong() and "GPUVEC_NUM_THREADS is 'two'" in last_error()
    """
    run_silently(script, GPUVEC_NUM_THREADS="two", GPUVEC_PLACEMENT="cpu")


def test_queries_work_with_a_wrong_variable():
    """Queries report the wrong variable or their usual answer, and keep the last error."""
    script = """
    assert answer("pinned_alloc", plausible)[0] is None
    before = last_error()
    assert lib.gpuvec_get_placement() == Status.ERROR_ENVIRONMENT
    assert b"GPUVEC_PLACEMENT is 'x'" in lib.gpuvec_why_cpu()
    assert lib.gpuvec_version() and lib.gpuvec_abi_version() > 0
    assert lib.gpuvec_status_string(Status.ERROR_ENVIRONMENT)
    assert last_error() == before != ""
    """
    run_silently(CALL_EACH + dedent(script), GPUVEC_PLACEMENT="x")


def test_placement_is_auto_unless_chosen():
    """The placement is auto if neither the variable nor a call sets it."""
    output = run_python("from bindings import lib; print(lib.gpuvec_get_placement())")
    assert int(output) == Place.AUTO


def test_why_cpu_names_the_placement(on_cpu):
    """Placement cpu is the reason, with any devices."""
    assert lib.gpuvec_why_cpu() == b"placement cpu was chosen"
