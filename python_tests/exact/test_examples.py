"""The examples of exact sums in parts run on the engines that programs use."""

import sys
from importlib.util import find_spec

import pytest
from bindings import ROOT
from programs import HAS_MPI, MPI_ENVIRONMENT, MPIEXEC, library_environment, run

EXAMPLES = ROOT / "python_examples"


def run_example(*command, **variables: str) -> str:
    """Runs an example, which compares its sums with that of the whole."""
    return run([*command], env=library_environment(**variables), cwd=ROOT)


def test_a_file_in_pieces(placement_variables):
    printed = run_example(sys.executable, EXAMPLES / "exact_file.py", **placement_variables)
    assert len(printed.splitlines()) == 3


def test_a_file_by_key_in_less_memory_than_it_has_bytes(placement_variables):
    printed = run_example(sys.executable, EXAMPLES / "exact_groups.py", **placement_variables)
    assert len(printed.splitlines()) == 4


@pytest.mark.long
@pytest.mark.skipif(not find_spec("dask"), reason="dask is not installed")
def test_chunks_of_dask_on_local_processes():
    printed = run_example(sys.executable, EXAMPLES / "exact_dask.py")
    assert len(printed.splitlines()) == 4


@pytest.mark.skipif(not HAS_MPI, reason="MPI is not installed")
@pytest.mark.parametrize("ranks", [1, 3])
def test_ranks_of_mpi(ranks):
    command = [MPIEXEC, "-n", ranks, sys.executable, EXAMPLES / "exact_mpi.py"]
    assert run_example(*command, **MPI_ENVIRONMENT).startswith(f"{ranks} ranks: ")
