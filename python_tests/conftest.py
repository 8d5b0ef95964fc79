"""Fixtures: the placement of a test's calls, and C code for tests that need it."""

import os
from pathlib import Path

import hypothesis
import pytest
from bindings import Place, lib, placed, why_cpu
from float_modes import load_helper
from on_fake_driver import IS_BUILT, NOT_BUILT
from programs import compile_c, compile_program, run_program
from streams import Resources

HAS_GPU = lib.gpuvec_device_count() > 0


def parameters() -> list:
    """Returns the tests' placements: GPUVEC_TEST_PLACEMENTS, or all that compute here.

    Placement `auto` has a mark, since it repeats `cpu` without a GPU (interface/test_last_run.py)
    and often `gpu` with one: pytest.ini says which commands leave it out.
    """
    names = os.environ.get("GPUVEC_TEST_PLACEMENTS", "auto,gpu,cpu" if HAS_GPU else "auto,cpu")
    marks = {"auto": pytest.mark.as_gpu if HAS_GPU else pytest.mark.as_cpu}
    return [
        pytest.param(Place[name.upper()], marks=marks.get(name, ())) for name in names.split(",")
    ]


hypothesis.settings.register_profile(
    "gpuvec",
    deadline=None,
    print_blob=True,
    # A placement holds for all examples of a test.
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
hypothesis.settings.load_profile("gpuvec")


@pytest.fixture(params=parameters(), ids=lambda place: place.name)
def placement(request):
    """Sets each placement in turn for the test."""
    if request.param == Place.GPU and not HAS_GPU:
        pytest.skip(why_cpu())
    with placed(request.param) as place:
        yield place


@pytest.fixture
def on_cpu():
    """Sets placement `cpu` for the test."""
    with placed(Place.CPU):
        yield


@pytest.fixture
def on_gpu():
    """Sets placement `gpu` for the test."""
    with placed(Place.GPU):
        yield


@pytest.fixture
def placement_variables(placement) -> dict:
    """Returns the environment that sets each placement in turn in another process.

    Passes GPUVEC_NUM_THREADS on if it is set.
    """
    threads = {name: text for name, text in os.environ.items() if name == "GPUVEC_NUM_THREADS"}
    return {"GPUVEC_PLACEMENT": placement.name.lower(), **threads}


@pytest.fixture(scope="session")
def programs_folder(tmp_path_factory):
    """Makes a folder for the tests' C programs; each program is compiled once."""
    return tmp_path_factory.mktemp("programs")


@pytest.fixture
def program(programs_folder, request):
    """Compiles a C program beside the test and runs it: it exits with 0 and prints nothing."""

    def run_silent_program(name: str, *arguments, **options) -> None:
        built = programs_folder / name
        if not built.exists():
            compile_program(request.path.with_name(f"{name}.c"), built)
        assert run_program(built, *arguments, **options) == ""

    return run_silent_program


@pytest.fixture(scope="session")
def float_modes_library(tmp_path_factory):
    """Compiles float_modes.c."""
    library = tmp_path_factory.mktemp("float_modes") / "float_modes.so"
    compile_c(Path(__file__).with_name("support") / "float_modes.c", library, "-shared", "-fPIC")
    return library


@pytest.fixture
def call_with_mxcsr(float_modes_library):
    """Returns the function of float_modes.c."""
    return load_helper(float_modes_library)


@pytest.fixture(scope="session")
def broken_driver(tmp_path_factory):
    """Makes a folder whose libcuda.so.1 is not a library, so that no driver can be loaded."""
    folder = tmp_path_factory.mktemp("broken_driver")
    (folder / "libcuda.so.1").write_text("not a library\n")
    return folder


def pytest_runtest_setup(item):
    """Skips scripts on the fake driver if the driver is not built."""
    if item.get_closest_marker("on_fake_driver") and not IS_BUILT:
        pytest.skip(NOT_BUILT)


def pytest_terminal_summary(terminalreporter):
    """Prints the number of combinations of memory kinds that passed."""
    passed = terminalreporter.getreports("passed")
    counts = [dict(report.user_properties).get("combinations", 0) for report in passed]
    if any(counts):
        terminalreporter.write_line(f"{sum(counts):,} combinations of memory kinds")


@pytest.fixture
def resources():
    """Provides streams, events and memory, released after the test."""
    with Resources() as made:
        yield made
