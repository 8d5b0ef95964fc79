"""The contributor's maps are complete: of folders, of files, and of the tests of `make quick`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from bindings import ROOT

PAGES = ROOT / "docs/contributing"
# Folders whose subfolders are all in tree.md. Others are described as a whole.
DIVIDED = {"src", "crates", "python_tests"}
CODE = {".rs", ".py", ".cu", ".cuh", ".sh", ".h", ".hpp", ".c"}


def quoted(page: Path) -> set[str]:
    """Returns the words that a page quotes, up to the first blank."""
    return set(re.findall(r"`([^`\s]+)[^`]*`", page.read_text()))


def files(folder: str) -> list[Path]:
    """Returns the files of code in a folder of the repository, relative to it."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run([*command, folder], capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is not a clone of the repository")
    paths = [Path(line) for line in listed.stdout.splitlines()]
    return [path for path in paths if path.suffix in CODE and (ROOT / path).exists()]


def test_the_tree_has_each_folder_and_no_others():
    rows = re.findall(r"^\| `([^`]+)` \|", (PAGES / "tree.md").read_text(), flags=re.MULTILINE)
    assert [folder for folder in rows if not (ROOT / folder).is_dir()] == []
    parts = [path.parent.parts for path in files(".")]
    folders = {"/".join(of[: 2 if of[0] in DIVIDED else 1]) for of in parts if of}
    tops = {folder.partition("/")[0] for folder in rows}
    assert {folder for folder in folders if folder not in {*rows, *tops}} == set()


@pytest.mark.parametrize(
    "page, folder",
    [
        ("docs/contributing/benchmarks.md", "benches"),
        ("python_tests/support/README.md", "python_tests/support"),
    ],
)
def test_a_page_names_each_file(page, folder):
    known = {name.rpartition("/")[2] for name in quoted(ROOT / page)}
    assert [path for path in files(folder) if path.name not in known] == []


def test_make_quick_knows_each_folder(monkeypatch):
    """Its table names folders and tests that exist, and covers all sources."""
    if not (ROOT / "tools/quick.py").exists():
        pytest.skip("this is not a clone of the repository")
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import quick

    for folder, (options, tests) in quick.NEAR.items():
        assert (ROOT / folder).is_dir(), folder
        for test in tests.split():
            assert (ROOT / "python_tests" / test).exists(), test
        crate = re.match(r"-p (?:gpuvec_)?(\w+)", options)
        assert not crate or crate[1] == "gpuvec" or (ROOT / "crates" / crate[1]).exists(), options
    sources = [*files("src"), *files("crates"), *files("python")]
    unknown = {path.parts[1] for path in sources if quick.near([str(path)]) == ([], [])}
    assert unknown <= {"benches", "find_cuda_helper"}
    assert quick.near(["tests/abi.rs"]) == (["-p gpuvec --test abi"], [])
    test = "python_tests/errors/test_errors.py"
    assert quick.near([test, test]) == ([], [test])
    del sys.modules["quick"]
