"""Calls from constructors and destructors, which the loader runs while it holds its lock.

A thread that starts, ends or first uses a thread-local destructor may need that lock: the library's
threads must not need it for the work of a call.
"""

from pathlib import Path

import pytest
from on_fake_driver import environment as on_fake_driver
from on_fake_driver import needs_fake_driver
from programs import compile_program, run_program, run_python

THREADS = "4"
# For several threads of the CPU; for several GPUs, more than 16 MiB in each array.
FOR_THREADS, FOR_SEVERAL_GPUS = 300_000, 6_000_001

FUNCTIONS = ["constructor", "destructor", "both"]
MEMORY = ["pageable", "pinned"]

each_function = pytest.mark.parametrize("function", FUNCTIONS)
each_memory = pytest.mark.parametrize("memory", MEMORY)

# `_ctypes.dlclose` runs the plug-in's destructor, since it has no other user.
OPEN_AND_CLOSE = """
import _ctypes, ctypes, os
_ctypes.dlclose(ctypes.CDLL(os.environ["PLUGIN"])._handle)
os._exit(0)
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """A plug-in that is linked with the library."""
    built = tmp_path_factory.mktemp("plugin") / "plugin.so"
    compile_program(Path(__file__).with_name("plugin.c"), built, "-shared", "-fPIC")
    return built


@pytest.fixture(scope="module")
def plugin_program(tmp_path_factory):
    """A program with the plug-in's constructor and destructor."""
    built = tmp_path_factory.mktemp("plugin_program") / "plugin"
    compile_program(Path(__file__).with_name("plugin.c"), built, "-DPROGRAM")
    return built


def settings(function: str, n: int, memory: str, placement: str) -> dict:
    """The environment for a plug-in that adds arrays of `n` elements."""
    return {
        "PLUGIN_CALLS_IN": function,
        "PLUGIN_LENGTH": str(n),
        "PLUGIN_MEMORY": memory,
        "GPUVEC_PLACEMENT": placement,
        "GPUVEC_NUM_THREADS": THREADS,
    }


def right(function: str) -> str:
    """Returns the output of a plug-in whose calls all gave the right sums."""
    callers = ["constructor", "destructor"] if function == "both" else [function]
    return "".join(f"{caller}: right\n" for caller in callers)


def open_and_close(plugin, **environment: str) -> str:
    """Loads and unloads the plug-in in a new process; returns the plug-in's output."""
    return run_python(OPEN_AND_CLOSE, PLUGIN=str(plugin), **environment)


@each_function
@each_memory
def test_a_plugin_calls_while_it_is_loaded_and_unloaded(plugin, function, memory):
    """A plug-in's first call may be in its constructor or destructor: it returns, and is right."""
    environment = settings(function, FOR_THREADS, memory, "cpu")
    assert open_and_close(plugin, **environment) == right(function)


@each_function
@each_memory
def test_a_program_calls_before_and_after_main(plugin_program, function, memory):
    """A program's constructors and destructors may call, as those of C++'s global objects do."""
    environment = settings(function, FOR_THREADS, memory, "cpu")
    assert run_program(plugin_program, **environment) == right(function)


@needs_fake_driver
@each_function
@each_memory
@pytest.mark.parametrize("placement", ["gpu", "all", "auto"])
@pytest.mark.parametrize("devices", [1, 2])
def test_a_plugin_uses_gpus_while_it_is_loaded_and_unloaded(
    plugin, function, memory, placement, devices
):
    """A plug-in's constructor or destructor may use one GPU, or several for one call."""
    environment = settings(function, FOR_SEVERAL_GPUS, memory, placement)
    environment |= on_fake_driver(DEVICES=devices)
    assert open_and_close(plugin, **environment) == right(function)
