"""docs/contributing/tree.md and benchmarks.md name each file of the code, and no others."""

import re
import subprocess
from pathlib import Path

import pytest
from bindings import ROOT

PAGES = ROOT / "docs/contributing"
TREE = PAGES / "tree.md"
# Sections whose title is not the path of their folder.
FOLDERS = {
    "The library": "",
    "Kernels": "kernels",
    "The Python package": "python/gpuvec",
    "Tools": "tools",
    "Releases": "release",
    "Other crates": "",
    "Everything else": "",
}
# Folders whose files are all named; tests and examples are described by folder.
COMPLETE = ["src", "kernels", "python/gpuvec", "python_tests/support", "tools", "release"]
CODE = {".rs", ".py", ".cu", ".cuh", ".sh", ".h", ".hpp", ".c"}


def rows(text: str) -> list[tuple[str, str]]:
    """Returns the paths in the first column of each section's table, with their section."""
    found = []
    for section in re.split(r"^##+ ", text, flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0].strip("`")
        for cell in re.findall(r"^\| (`[^|]*`) \|", section, flags=re.MULTILINE):
            found += [(title, path) for path in re.findall(r"`([^`]+)`", cell)]
    return found


def place(title: str, path: str) -> Path:
    """Returns the path of a row, in its section's folder."""
    folder = ROOT / FOLDERS.get(title, title)
    sources = folder / "src" / path
    return sources if title.startswith("crates/") and sources.exists() else folder / path


def names(*pages: Path) -> set[str]:
    """Returns the names of files that pages quote."""
    quoted = [re.findall(r"`([^`\s]+)[^`]*`", page.read_text()) for page in pages]
    return {name.rsplit("/", 1)[-1] for name in sum(quoted, [])}


def files(folder: str) -> list[Path]:
    """Returns the files of code in a folder of the repository."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run([*command, folder], capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is not a clone of the repository")
    paths = [Path(line) for line in listed.stdout.splitlines()]
    return [path for path in paths if path.suffix in CODE and (ROOT / path).exists()]


def test_every_file_of_the_tree_exists():
    missing = [row for row in rows(TREE.read_text()) if not place(*row).exists()]
    assert missing == []


@pytest.mark.parametrize("folder", COMPLETE)
def test_every_file_is_in_the_tree(folder):
    """Folders for processors are described as a whole, and so are the adapters and the proofs."""
    whole = {"aarch64", "x86_64", "numexpr", "function_bounds"}
    known = names(TREE)
    missing = [
        path for path in files(folder) if path.name not in known and path.parent.name not in whole
    ]
    assert missing == []


def test_every_crate_is_in_the_tree():
    known = {path.strip("/") for _, path in rows(TREE.read_text())}
    text = TREE.read_text()
    for manifest in (ROOT / "crates").glob("*/Cargo.toml"):
        crate = f"crates/{manifest.parent.name}"
        assert crate in known or f"### `{crate}`" in text, crate


def test_every_benchmark_is_described():
    known = names(PAGES / "benchmarks.md")
    assert [path for path in files("benches") if path.name not in known] == []
