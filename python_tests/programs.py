"""Runs Python and C in processes of their own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from bindings import LIBRARY, ROOT

HERE = Path(__file__).resolve().parent
TIMEOUT = 120
OWN_VARIABLES = ("GPUVEC_PLACEMENT", "GPUVEC_NUM_THREADS")


def run(command: list, **options) -> str:
    """Runs a command that is to succeed; what it wrote to stdout."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=TIMEOUT, **options
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def library_environment(**environment: str) -> dict:
    """This process's environment for another that can import the tests' modules.

    Nothing that the caller set for gpuvec reaches it but the library's path and `environment`.
    """
    variables = {key: text for key, text in os.environ.items() if key not in OWN_VARIABLES}
    variables["GPUVEC_LIB"] = str(LIBRARY)
    variables["PYTHONPATH"] = before("PYTHONPATH", HERE)
    return {**variables, **environment}


def run_python(script: str, **environment: str) -> str:
    """Runs a script in a process of its own; what it wrote to stdout."""
    variables = library_environment(**environment)
    return run([sys.executable, "-c", textwrap.dedent(script)], env=variables, cwd=ROOT)


def before(variable: str, folder: Path) -> str:
    """The value of a path variable with the folder put in front."""
    inherited = os.environ.get(variable)
    return f"{folder}{os.pathsep}{inherited}" if inherited else str(folder)


def compile_c(source, output: Path, *flags: str) -> None:
    """Compiles C of the tests' folder (or a path) as strictly as users may."""
    strict = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    run([os.environ.get("CC", "cc"), *strict, HERE / source, "-o", output, *flags])
