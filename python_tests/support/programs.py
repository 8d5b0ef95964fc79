"""Runs Python and C in processes of their own."""

import os
import shutil
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

from bindings import LIBRARY, ROOT, lib

SUPPORT = Path(__file__).resolve().parent
# Seconds after which a program counts as hanging; each runs for seconds at most on an idle machine.
TIMEOUT = 120
# `make test-wheel` tests the package that it installed, not the one of the checkout.
MODULES = [SUPPORT] if "GPUVEC_DIST" in os.environ else [ROOT / "python", SUPPORT]
OWN_VARIABLES = (
    "GPUVEC_PLACEMENT",
    "GPUVEC_NUM_THREADS",
    "GPUVEC_DEVICE",
    "GPUVEC_VECTORS",
    "GPUVEC_LOG",
    "OMP_NUM_THREADS",
)


def run(command: list, timeout: float = TIMEOUT, **options) -> str:
    """Runs a command that must succeed; returns its standard output."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, **options)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def library_environment(**environment: str) -> dict:
    """Returns an environment for another process that can import gpuvec and the support modules.

    Of the caller's settings for gpuvec, it has only the library's path; `environment` adds others.
    """
    variables = {key: text for key, text in os.environ.items() if key not in OWN_VARIABLES}
    variables["GPUVEC_LIB"] = str(LIBRARY)
    variables["PYTHONPATH"] = before("PYTHONPATH", os.pathsep.join(map(str, MODULES)))
    return {**variables, **environment}


def run_python(script: str, timeout: float = TIMEOUT, **environment: str) -> str:
    """Runs a script in a process of its own and returns its output."""
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return run(command, timeout, env=library_environment(**environment), cwd=ROOT)


def run_silently(script: str, **options) -> None:
    """Runs a script that must exit with 0 and print nothing, not even to stderr."""
    silence = "import os\nos.dup2(1, 2)\n"
    assert run_python(silence + textwrap.dedent(script), **options) == ""


def before(variable: str, folder: "Path | str") -> str:
    """Returns the value of a path variable with the folder in front."""
    inherited = os.environ.get(variable)
    return f"{folder}{os.pathsep}{inherited}" if inherited else str(folder)


# Starts the ranks of MPI; a virtual environment may have its own. By name: started by a path,
# Open MPI puts the folder of its libraries, where the system's driver may be, in front of
# LD_LIBRARY_PATH.
MPIEXEC = "mpiexec"
MPI_ENVIRONMENT = {
    "PATH": before("PATH", Path(sys.executable).parent),
    # Open MPI asks for these if the user is root, as in containers.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
HAS_MPI = bool(find_spec("mpi4py") and shutil.which(MPIEXEC, path=MPI_ENVIRONMENT["PATH"]))


def compile_c(source: Path, output: Path, *flags: str) -> None:
    """Compiles C with the strictest warnings that users may enable."""
    strict = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    run([os.environ.get("CC", "cc"), *strict, source, "-o", output, *flags])


def linking(program: Path) -> list:
    """Returns the flags that link a program with the library.

    A link beside the program has the library's soname, which the library's own file may lack.
    """
    named = program.parent / f"libgpuvec.so.{lib.gpuvec_abi_version()}"
    if not named.is_symlink():
        named.symlink_to(LIBRARY)
    return [LIBRARY, f"-Wl,-rpath,{program.parent}", "-pthread"]


def compile_program(source: Path, output: Path, *flags) -> None:
    """Compiles C that calls the library, and links it with the library."""
    compile_c(source, output, "-I", ROOT / "include", *flags, *linking(output))


def run_program(built: Path, *arguments, timeout: float = TIMEOUT, **environment: str) -> str:
    """Runs a compiled program that must succeed and returns its output, stderr included."""
    command = ["sh", "-c", 'exec "$@" 2>&1', "sh", built, *arguments]
    return run(command, timeout, env=library_environment(**environment))
