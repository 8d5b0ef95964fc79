"""The how-tos' code blocks are programs that run as they are printed."""

import sys
from importlib.util import find_spec

import pytest
from bindings import ROOT
from documents import blocks
from programs import library_environment, run

HOWTOS = sorted((ROOT / "docs").glob("howto_*.md"))


def test_each_howto_has_programs():
    assert len(HOWTOS) == 5
    for document in HOWTOS:
        assert blocks(document, "python"), document.name


@pytest.mark.parametrize(
    "code, needs", [block for document in HOWTOS for block in blocks(document, "python")]
)
def test_programs(code, needs, tmp_path):
    """Each block is a whole program: it imports what it uses, and checks its own results."""
    if needs and not find_spec(needs):
        pytest.skip(f"{needs} is not installed")
    assert "assert " in code
    program = tmp_path / "program.py"
    program.write_text(code)
    run([sys.executable, program], cwd=tmp_path, env=library_environment())
