"""Everything that is linked into the library has its licence in LICENSE-THIRD-PARTY."""

import shutil

import pytest
from bindings import ROOT
from programs import run

pytestmark = [pytest.mark.wheel, pytest.mark.any_driver]

NOTICES = (ROOT / "LICENSE-THIRD-PARTY").read_text()


@pytest.mark.skipif(not shutil.which("cargo"), reason="cargo knows what is linked")
def test_each_linked_crate_has_a_licence_and_a_notice():
    tree = "cargo tree --locked --edges=normal,no-proc-macro --prefix=none --format".split()
    crates = set(filter(None, run([*tree, "{p}"], cwd=ROOT).splitlines()))
    linked = {line.split(" (")[0].replace(" v", " ") for line in crates if "(/" not in line}
    entries = [entry for entry in NOTICES.split("\n\n") if "\n    Copyright " in entry]
    noticed = {entry.split(":")[0] for entry in entries}
    assert any(crate.startswith("cust ") for crate in linked)
    assert linked <= noticed, linked - noticed


@pytest.mark.parametrize("licence", ["MIT", "Unicode-3.0", "The LLVM exception"])
def test_each_licence_is_there_in_full(licence):
    paragraphs = NOTICES.split(f"\n{licence}:\n\n")[1].split("\n\n    ")
    assert len(paragraphs) > 1 and min(map(len, paragraphs[:2])) > 10


@pytest.mark.parametrize("name", ["LICENSE-THIRD-PARTY", "LICENSE-MIT", "LICENSE-APACHE"])
def test_the_licences_come_with_the_library(name, wheel, archive):
    for files in wheel, archive:
        [packed] = [text for path, text in files.items() if path.endswith(f"/{name}")]
        assert packed == (ROOT / name).read_bytes()
