"""One version: in Cargo.toml, the header, the library, the change log, a release's files."""

import os
import re

import pytest
from bindings import ROOT, lib

pytestmark = [pytest.mark.wheel, pytest.mark.any_driver]

CARGO = (ROOT / "Cargo.toml").read_text()
[VERSION] = re.findall(r'^version = "(.+)"', CARGO.split("[dependencies]")[0], re.MULTILINE)


def test_the_header_has_the_version():
    header = (ROOT / "include/gpuvec.h").read_text()
    numbers = re.findall(r"#define GPUVEC_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header)
    assert ".".join(numbers) == VERSION


def test_the_library_has_the_version():
    assert lib.gpuvec_version() == VERSION.encode()


def test_the_change_log_begins_with_the_version():
    [newest, *_] = re.findall(r"^## (\S+),", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest == VERSION


@pytest.mark.parametrize(
    "path, line",
    [("CITATION.cff", r"^version: (\S+)$"), ("release/conda/recipe.yaml", r'^  version: "(\S+)"$')],
)
def test_the_citation_and_the_recipe_have_the_version(path, line):
    assert re.findall(line, (ROOT / path).read_text(), re.MULTILINE) == [VERSION]


def test_the_files_of_a_release_have_the_version(dist, processors):
    system = "linux" if os.environ.get("BUILT") else "manylinux_2_17"
    names = {path.name for path in dist.iterdir()}
    assert names == {
        f"gpuvec-{VERSION}.tar.gz",
        *[f"gpuvec-{VERSION}-py3-none-{system}_{name}.whl" for name in processors],
        *[f"libgpuvec-{VERSION}-linux-{name}.tar.gz" for name in processors],
        "SHA256SUMS",
    }
