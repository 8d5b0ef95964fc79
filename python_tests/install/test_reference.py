"""Doxygen finds a description for everything in the header."""

import xml.etree.ElementTree as ElementTree

import pytest
from bindings import ROOT
from header import defines, enumeration, fields, prototypes
from installed import needs
from programs import run

pytestmark = pytest.mark.any_driver

ENUMERATIONS = ("gpuvec_status", "gpuvec_place", "gpuvec_backend")
TYPES = {*ENUMERATIONS, "gpuvec_run", "gpuvec_memory_info", "gpuvec_stream", "gpuvec_event"}


def described(folder) -> dict:
    """Maps each name in Doxygen's XML to True if it has a description."""
    found = {}
    for page in folder.glob("*.xml"):
        for member in ElementTree.parse(page).iter():
            if member.tag not in {"memberdef", "enumvalue", "compounddef"}:
                continue
            name = member.findtext("name") or member.findtext("compoundname")
            texts = [member.find(f"{kind}description") for kind in ("brief", "detailed")]
            has_text = any("".join(text.itertext()).strip() for text in texts)
            found[name] = has_text and found.get(name, True)
    return found


def test_every_member_is_described(tmp_path):
    """With Doxygen's own defaults, as in another project's documentation."""
    needs("doxygen")
    options = [f"INPUT={ROOT / 'include'}", "FILE_PATTERNS=gpuvec.h", "GENERATE_XML=YES"]
    (tmp_path / "Doxyfile").write_text("\n".join([*options, "GENERATE_LATEX=NO", "HAVE_DOT=NO"]))
    run(["doxygen"], cwd=tmp_path)
    found = described(tmp_path / "xml")
    names = TYPES | {*prototypes(), *defines()}
    names |= {value for name in ENUMERATIONS for value in enumeration(name)}
    names |= {name for name, _ in fields("gpuvec_run")}
    assert {name for name in names if not found.get(name)} == set()


def test_reference_is_made_without_warnings():
    """`make reference`: a warning would be an error."""
    needs("doxygen", "make")
    run(["make", "-s", "reference"], cwd=ROOT)
    page = (ROOT / "target/reference/html/gpuvec_8h.html").read_text()
    for section in ("Building and loading", "Reductions", "Streams and events"):
        assert section in page
