"""The code of README.md, of the site and of the header runs as printed; links lead somewhere."""

import re
import sys
from importlib.util import find_spec

import gpuvec
import header
import pytest
from bindings import ROOT
from documents import PAGES, all_blocks, anchors, blocks, links, without_code
from on_fake_driver import environment, needs_fake_driver
from programs import HAS_MPI, MPI_ENVIRONMENT, MPIEXEC, compile_c, library_environment, run

pytestmark = pytest.mark.slow_on_fake_driver

README = ROOT / "README.md"
DOCUMENTS = [README, *PAGES]
HOWTOS = sorted(set((ROOT / "docs/howto").glob("*.md")) - {ROOT / "docs/howto/index.md"})
MANY_MACHINES = ROOT / "docs/howto/many_machines.md"
SEVERAL_GPUS = ROOT / "docs/howto/several_gpus.md"
RELEASE = ROOT / "target/release"
LINK = [f"-I{ROOT / 'include'}", f"-L{RELEASE}", "-lgpuvec", f"-Wl,-rpath,{RELEASE}"]
RANKS = 3
# The languages of blocks that are programs, and of those that are not code.
RUN, PROSE = {"python", "c", "cpp"}, {"text", ""}
IN_C = """\
#include "gpuvec.h"
#include <stdio.h>

int main(void) {
%s
    return 0;
}
"""


def named(document) -> str:
    return str(document.relative_to(ROOT))


def blocks_of(language: str) -> list:
    return [block for document in DOCUMENTS for block in blocks(document, language)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_block_runs_or_says_why_not(document):
    """Blocks of Sphinx's directives are in braces; the site's build runs its code cells."""
    for block in all_blocks(document):
        known = block.language in RUN | PROSE or block.language.startswith("{")
        assert known or block.reason, f"line {block.line}: a block of {block.language}"


@pytest.mark.parametrize("document", HOWTOS, ids=named)
def test_each_howto_has_programs(document):
    assert blocks(document, "python")


@pytest.mark.long
@pytest.mark.parametrize("code, needs", blocks_of("python"))
def test_python(code, needs, tmp_path):
    """Each block is a whole program: it imports what it uses, and checks or prints its results."""
    assert "assert " in code or printed_by(code, "#"), "nothing is checked"
    assert run_block(code, needs, tmp_path).startswith(printed_by(code, "#"))


def printed_by(code: str, comment: str) -> str:
    """Returns the lines that a program prints, by the comments behind its calls."""
    prints = rf"^ *(?:print|printf|puts)\(.*\);? +{comment} (.*)\n"
    return "".join(f"{line}\n" for line in re.findall(prints, code, flags=re.MULTILINE))


def run_block(code, needs, tmp_path, **variables) -> str:
    """Runs a block that needs another module, or not; those of MPI with several ranks."""
    if needs and not find_spec(needs):
        pytest.skip(f"{needs} is not installed")
    command = []
    if needs == "mpi4py":
        if not HAS_MPI:
            pytest.skip("there is no mpiexec")
        command, variables = [MPIEXEC, "-n", RANKS], {**MPI_ENVIRONMENT, **variables}
    program = tmp_path / "program.py"
    program.write_text(code)
    # Programs name the library's file in a checkout.
    (tmp_path / "target").symlink_to(ROOT / "target")
    command += [sys.executable, program]
    return run(command, cwd=tmp_path, env=library_environment(**variables))


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


@pytest.mark.parametrize("code, needs", blocks_of("c"))
def test_c(code, needs, tmp_path):
    """C blocks compile without warnings, link with the library alone, and run."""
    assert needs is None
    run_c(code, tmp_path)


@pytest.mark.parametrize("code, needs", blocks_of("cpp"))
def test_cpp(code, needs, tmp_path):
    """C++ blocks compile as C++20, and run."""
    assert needs is None
    source, program = tmp_path / "program.cpp", tmp_path / "program"
    source.write_text(code)
    run(["c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", source, "-o", program, *LINK])
    run([program], env=library_environment())


@pytest.mark.parametrize("section", header.examples())
def test_example_of_the_header(section, tmp_path):
    """Each section of functions shows its use, in lines that print what they say."""
    code = header.examples()[section]
    expected = printed_by(code, "//")
    assert expected, f"the section {section} has no example that prints a result"
    assert run_c(IN_C % code, tmp_path) == expected


def run_c(code: str, tmp_path) -> str:
    """Compiles and runs a program, and returns what it prints."""
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(code)
    compile_c(source, program, *LINK)
    return run([program], env=library_environment())


def test_the_first_command_gives_a_program_that_starts(tmp_path):
    """The first program in C of the installation, compiled by the command above it."""
    page = ROOT / "docs/install.md"
    [command] = re.findall(r"^    (cc program\.c -Iinclude .*)$", page.read_text(), re.MULTILINE)
    for folder in ("include", "target"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    (tmp_path / "program.c").write_text(blocks(page, "c")[0].values[0])
    environment = library_environment()
    environment.pop("LD_LIBRARY_PATH", None)
    assert run(["sh", "-ec", f"{command}; ./program"], cwd=tmp_path, env=environment) == "300\n"


OTHERS = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]


@pytest.mark.parametrize("document", [*DOCUMENTS, *OTHERS], ids=named)
def test_links_lead_somewhere(document):
    """To a file of the repository, and to a heading of it. (Sphinx checks the site's own, too.)"""
    for link in links(document):
        path, _, anchor = link.partition("#")
        # The site's build draws the figures, and fails if one is missing.
        if ":" in path or path.endswith(".svg"):
            continue
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("document", [*DOCUMENTS, *OTHERS], ids=named)
def test_no_line_is_lost(document):
    """Lines that begin with a percent sign are comments to the site."""
    assert not re.findall(r"^ *%.*", without_code(document.read_text()), flags=re.MULTILINE)


def test_the_python_reference_has_every_public_name():
    pages = [*(ROOT / "docs/reference/python").glob("*.md"), ROOT / "docs/reference/errors.md"]
    directive = r"^\.\. (?:auto(?:function|class|exception|data)|data):: (\w+)"
    found = [re.findall(directive, page.read_text(), flags=re.MULTILINE) for page in pages]
    assert sorted(sum(found, [])) == sorted(gpuvec.__all__)


def test_the_c_reference_has_every_section():
    """The pages take each section from the header as a whole."""
    found = [
        re.findall(r"^\{\{ section (.*) \}\}$", page.read_text(), flags=re.MULTILINE)
        for page in (ROOT / "docs/reference/c").glob("*.md")
    ]
    assert sorted(sum(found, [])) == sorted([*header.examples(), *header.WITHOUT_FUNCTIONS])


def test_the_c_reference_has_every_declaration():
    """Functions, constants, and the values of enumerations."""
    sys.path.append(str(ROOT / "docs/_extensions"))
    from c_reference import items, sections

    declared = [item for _, part in sections().values() for item in items(part)]
    found = {item.directive: set() for item in declared}
    for item in declared:
        name = re.search(r"(\w+)(?:\(.*\)| = .*|\[\d+\])?$", item.signature)[1]
        found[item.directive].add(name)
    assert found["function"] == set(header.prototypes())
    assert found["macro"] >= set(header.defines())
    for enumeration in found["enum"]:
        assert found["enumerator"] >= set(header.enumeration(enumeration)), enumeration


def test_the_readme_fits():
    """In two screens or so; everything else is on the site."""
    assert len(README.read_text().splitlines()) <= 150
