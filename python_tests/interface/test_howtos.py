"""The code blocks of how-tos, and of other pages for users, are programs that run as printed."""

import sys
from importlib.util import find_spec

import pytest
from bindings import ROOT
from documents import blocks
from on_fake_driver import environment, needs_fake_driver
from programs import AS_ROOT, MPIEXEC, library_environment, run

HOWTOS = sorted(set((ROOT / "docs/howto").glob("*.md")) - {ROOT / "docs/howto/index.md"})
# Explanations show programs where they help; placement.md's prints what depends on the machine.
OTHERS = sorted(
    {ROOT / "docs/faq.md", *(ROOT / "docs").glob("coming_from/*.md")}
    | {*(ROOT / "docs").glob("explanation/*.md")} - {ROOT / "docs/explanation/placement.md"}
)
SEVERAL_GPUS = ROOT / "docs/howto/several_gpus.md"
MANY_MACHINES = ROOT / "docs/howto/many_machines.md"
RANKS = 3


def test_each_howto_has_programs():
    assert len(HOWTOS) >= 7
    for document in HOWTOS:
        assert blocks(document, "python"), document.name


@pytest.mark.parametrize(
    "code, needs",
    [block for document in [*HOWTOS, *OTHERS] for block in blocks(document, "python")],
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


@needs_fake_driver
@pytest.mark.parametrize("code, needs", blocks(SEVERAL_GPUS, "python"))
def test_programs_for_several_gpus(code, needs, tmp_path):
    """Each GPU has a part of the work, and the results are the same."""
    run_block(code, needs, tmp_path, GPUVEC_PLACEMENT="gpu", **environment(DEVICES=3))
