"""The how-tos' code blocks are programs that run as they are printed."""

import sys
from importlib.util import find_spec

import pytest
from bindings import ROOT
from documents import blocks
from on_fake_driver import environment, needs_fake_driver
from programs import AS_ROOT, MPIEXEC, library_environment, run

HOWTOS = sorted(set((ROOT / "docs/howto").glob("*.md")) - {ROOT / "docs/howto/index.md"})
MANY_MACHINES = ROOT / "docs/howto/many_machines.md"
RANKS = 3


def test_each_howto_has_programs():
    assert len(HOWTOS) >= 7
    for document in HOWTOS:
        assert blocks(document, "python"), document.name


@pytest.mark.parametrize(
    "code, needs", [block for document in HOWTOS for block in blocks(document, "python")]
)
def test_programs(code, needs, tmp_path):
    """Each block is a whole program: it imports what it uses, and checks its own results."""
    assert "assert " in code
    run_block(code, needs, tmp_path)


def run_block(code, needs, tmp_path, **variables):
    """Runs a block that needs another module, or not; those of MPI with several ranks."""
    if needs and not find_spec(needs):
        pytest.skip(f"{needs} is not installed")
    command = []
    if needs == "mpi4py":
        if not MPIEXEC:
            pytest.skip("there is no mpiexec")
        command, variables = [MPIEXEC, "-n", RANKS], {**AS_ROOT, **variables}
    program = tmp_path / "program.py"
    program.write_text(code)
    command += [sys.executable, program]
    run(command, cwd=tmp_path, env=library_environment(**variables))


@needs_fake_driver
def test_the_ranks_of_a_machine_have_gpus_of_their_own(tmp_path):
    """Two GPUs for three ranks: the last one shares the first GPU."""
    [block] = [block for block in blocks(MANY_MACHINES, "python") if block.values[1] == "mpi4py"]
    code, needs = block.values
    code += "assert gpus == 2\nassert gpuvec.last_run().devices == (neighbours.rank % 2,)\n"
    run_block(code, needs, tmp_path, GPUVEC_PLACEMENT="gpu", **environment(DEVICES=2))
