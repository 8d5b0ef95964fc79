"""docs/contributing/faults.md names the tests that state what happens: each of them must exist."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import pytest
from bindings import ROOT

DOCUMENT = ROOT / "docs/contributing/faults.md"
NAME = re.compile(r"(?P<file>[\w/]+\.(?P<kind>py|rs|c|sh))(?:::(?P<function>\w+))?")
DEFINITIONS = {"py": r"^\s*def {}\(", "rs": r"^\s*fn {}\("}


@dataclass(frozen=True)
class Reference:
    """The name of a test in the document: a file, and perhaps one of its functions."""

    file: str
    kind: str
    function: Optional[str]

    def paths(self) -> list[Path]:
        """Returns the files that the name may stand for."""
        if "/" in self.file:
            return [ROOT / self.file]
        return [ROOT / "tools" / self.file, *ROOT.glob(f"python_tests/*/{self.file}")]

    def problem(self) -> Optional[str]:
        """Returns a text that names what is missing, or None."""
        path = next((path for path in self.paths() if path.exists()), None)
        if path is None:
            return f"there is no {self.file}"
        if self.function is None:
            return None
        pattern = DEFINITIONS.get(self.kind, "(?!)").format(self.function)
        if re.search(pattern, path.read_text(), flags=re.MULTILINE):
            return None
        return f"{self.file} has no {self.function}{elsewhere(self.function)}"


def elsewhere(function: str) -> str:
    """Names the files that have a test of that name, to help with a rename."""
    files = [*ROOT.glob("python_tests/*/*.py"), *ROOT.glob("tests/*.rs"), *ROOT.glob("src/**/*.rs")]
    found = [path for path in files if re.search(rf"\b(def|fn) {function}\(", path.read_text())]
    return "".join(f", but {path.relative_to(ROOT)} has" for path in found)


def parsed(name: str) -> Optional[Reference]:
    """Parses a name; returns None if it is not a reference."""
    match = NAME.fullmatch(name)
    return Reference(**match.groupdict()) if match else None


def is_like_a_reference(code: str) -> bool:
    """Returns whether code that the text quotes is meant as a test's name."""
    return "::" in code or re.match(r"test_|[\w/]+\.(py|rs|c|sh)\b", code) is not None


def quoted(text: str) -> list[str]:
    """Returns the code that a text quotes."""
    return re.findall(r"`([^`]*)`", text)


def cells_of_tests(text: str) -> list[str]:
    """Returns the last cells of the table whose last column is "stated by"."""
    table = text.split("stated by |\n", 1)[1].split("\n\n", 1)[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()[1:]]
    return [row[-1].strip() for row in rows]


def wrong_names(text: str) -> list[str]:
    """Returns the names in a document that belong to no test, with the reason."""
    names = dict.fromkeys(filter(is_like_a_reference, quoted(text)))
    names |= dict.fromkeys(name for cell in cells_of_tests(text) for name in quoted(cell))
    problems = []
    for name in names:
        reference = parsed(name)
        problem = reference.problem() if reference else "it is not a test's name"
        problems += [f"{name}: {problem}"] if problem else []
    return problems


def table(cell: str) -> str:
    """Returns a document with one fault and this last cell."""
    rule = "|---|---|---|---|"
    return f"\n| | fault | what a caller gets | stated by |\n{rule}\n| 1 | | | {cell} |\n"


def test_every_test_that_the_faults_name_exists():
    """Each name in the document is that of a test."""
    assert "\n".join(wrong_names(DOCUMENT.read_text())) == ""


def test_every_row_of_the_faults_names_tests_alone():
    """The last column has names of tests, separated by commas, and no other text."""
    cells = cells_of_tests(DOCUMENT.read_text())
    assert len(cells) > 20
    for cell in cells:
        assert re.sub(r"`[^`]*`", "", cell).replace(", ", "") == "", cell


@pytest.mark.parametrize(
    "name, problem",
    [
        ("test_docs.py::test_that_is_missing", "test_docs.py has no test_that_is_missing"),
        ("test_missing.py::test_of_it", "there is no test_missing.py"),
        ("missing.py", "there is no missing.py"),
        ("src/call/checked.rs::is_missing", "src/call/checked.rs has no is_missing"),
        ("tests/streams.rs::is:missing", "it is not a test's name"),
        ("test_docs.py::test_two words", "it is not a test's name"),
        ("test_docs", "it is not a test's name"),
        ("tests::streams", "it is not a test's name"),
    ],
)
def test_wrong_names_are_found(name, problem):
    """Misspelt names and those of renamed tests are reported."""
    assert wrong_names(table(f"`{name}`")) == [f"{name}: {problem}"]


def test_right_names_pass():
    """Files, functions of Python and functions of Rust are found."""
    names = [
        "fault_injection.py",
        "tools/stress.py",
        "test_docs.py::test_right_names_pass",
        "tests/abi.rs",
    ]
    assert wrong_names(table(", ".join(f"`{name}`" for name in names))) == []
