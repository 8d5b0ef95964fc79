"""Runs other projects' own tests on gpuvec, and compares the outcomes with docs/reference/peers.md.

    tools/peers/run.py [--failures] [--only numexpr|pandas|array-api] [--array-api CHECKOUT]

Downloads numexpr's source distribution by pip, and unpacks only the file of its tests under
target/peers; pandas is installed with its tests. `import numexpr` finds the adapter beside this
file. The array API standard's tests, which import gpuvec_array_api, run from a checkout of them.

A test has passed; or it fails because gpuvec or the adapter refuses its request (`REFUSALS`); or
its result differs from the expected one, for a known reason (`DIFFERENCES`). Tests that skip
themselves, or expect to fail, do not count. Exits 1 if anything else happened, or if the counts are
not those of the tables in docs/reference/peers.md. `--failures` prints every test that has failed.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python_tests/support"))
import pytest
import record
from progress import progress

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET = ROOT / "target/peers"
PAGE = ROOT / "docs/reference/peers.md"
TESTS = "numexpr/tests/test_numexpr.py"
# pandas' tests of what it evaluates by numexpr.
PANDAS_TESTS = (
    "computation/test_eval.py",
    "computation/test_compat.py",
    "frame/test_query_eval.py",
    "test_expressions.py",
)
# The array API standard's tests of functions that gpuvec has.
ARRAY_API_TESTS = (
    "test_operators_and_elementwise_functions.py",
    "test_statistical_functions.py",
    "test_searching_functions.py",
    "test_utility_functions.py",
    "test_special_cases.py",
    "test_linalg.py::test_vecdot",
)
# Types of elements that gpuvec converts to others, or refuses. One complex type must be left.
ARRAY_API_SKIPPED = "int8,int16,uint8,uint16,uint32,complex64"
# The suite divides the number of examples by 10 for most of its tests.
ARRAY_API_OPTIONS = ("-p", "conformance", "--max-examples=500")

# The reason of a refusal, by its text.
REFUSALS = {
    r"pass an aligned array": "misaligned arrays",
    r"\bcomplex(64|128)?\b|'\.' is not an operator": "complex numbers and their parts",
    r"dtype \|S\d|bytes without a type|builtins\.list": "strings",
    r"pow takes floats": "powers of integers",
    r"prod takes integers": "products of floats",
    r"ddof is a whole number": "corrections that are floats",
    r"no function is named": "functions that the language lacks",
    r"'~' takes bools and integers": "bits of floats",
    r"takes numbers, not bools": "arithmetic of bools",
    r"has dtype int\d+: pass": "casts of arguments and results",
    r"found 'and'|named 'import'|__builtins__": "another type of error",
    r"numexpr's own program": "numexpr's own program",
    r"variables of the environment": "variables of the environment",
}
# The reason of a result that is not the expected one, by the name of the test and its error.
DIFFERENCES = {
    r"test_small_int: 'int64' != 'int32'": "the type of a number alone",
    r"test_validate_syntax: .*ExpressionError.* SyntaxError": "another type of error",
    r"test_true_false_logic: .*== -2": "Python's inverted bools",
    r"test_max_threads_(un)?set: Command": "variables of the environment",
    r"test_(sum|vecdot): out.dtype=int64, but should be int32": "types of sums",
    r"test_unary\[signbit\(x_i is -NaN\)": "the sign of NaN",
    r"test_binary\[floor_divide\(.* -> -0\]: out=-1.0": "fails with NumPy, too",
}


@dataclass(frozen=True)
class Suite:
    """Tests of a library, whose table is in the section of the page that names it."""

    library: str
    release: str
    files: list[str]
    options: tuple[str, ...] = ()

    def documented(self) -> dict[str, int]:
        """Returns the table of docs/reference/peers.md, which is that of a release."""
        sections = PAGE.read_text().split("\n## ")
        section = next(each for each in sections if each.startswith(f"{self.library}'"))
        assert self.release in section, f"not {self.release}: {PAGE}"
        rows = re.findall(r"^\| ([^|]+) \| ([\d,]+) \|$", section, re.MULTILINE)
        return {outcome: int(count.replace(",", "")) for outcome, count in rows}


def of_numexpr() -> Suite:
    """Returns numexpr's tests, unpacked from its source distribution."""
    requirements = HERE / "requirements.txt"
    version = re.search(r"^numexpr==(\S+)", requirements.read_text(), re.MULTILINE)[1]
    unpacked = TARGET / f"numexpr-{version}/test_numexpr.py"
    if not unpacked.exists():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        options = ["--no-binary", "numexpr", "--dest", str(TARGET), "-r", str(requirements)]
        subprocess.run([*pip, *options], check=True)
        unpacked.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(TARGET / f"numexpr-{version}.tar.gz") as archive:
            content = archive.extractfile(f"numexpr-{version}/{TESTS}").read()
        unpacked.write_bytes(content)
    return Suite("numexpr", f"numexpr {version}", [str(unpacked)])


def of_pandas() -> Suite:
    """Returns the tests of the pandas that is installed."""
    import pandas

    folder = Path(pandas.__file__).parent / "tests"
    files = [str(folder / name) for name in PANDAS_TESTS]
    return Suite("pandas", f"pandas {pandas.__version__}", files)


def of_array_api(checkout: Path) -> Suite:
    """Returns the array API standard's tests, whose release is the commit of their checkout."""
    os.environ["ARRAY_API_TESTS_MODULE"] = "gpuvec_array_api"
    os.environ["ARRAY_API_TESTS_SKIP_DTYPES"] = ARRAY_API_SKIPPED
    git = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    commit = subprocess.run(git, check=True, capture_output=True, text=True).stdout.strip()
    folder = checkout.resolve() / "array_api_tests"
    files = [str(folder / name) for name in ARRAY_API_TESTS]
    release = f"array-api-tests at commit {commit}"
    return Suite("The array API standard", release, files, ARRAY_API_OPTIONS)


class Report:
    """Counts outcomes, as a plugin of pytest."""

    def __init__(self, release: str) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.unknown: list[str] = []
        self.shown = progress(what=release, unit="tests")

    def pytest_collection_finish(self, session: Any) -> None:
        """Learns how many tests there are."""
        self.shown.total = len(session.items)

    def pytest_runtest_logfinish(self) -> None:
        """Shows that another test has ended."""
        self.shown.update(1)

    def pytest_runtest_setup(self, item: Any) -> None:
        """Forgets the refusals of earlier tests, and leaves out tracebacks: they take minutes."""
        record.refusals.clear()
        record.has_run.clear()
        item.repr_failure = str

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Iterator[None]:
        """Counts the outcome of a test, whose error pytest's own hooks find."""
        outcome = yield
        if call.when == "call" and not outcome.get_result().skipped:
            self.count(item.nodeid.split("::", 1)[1], call.excinfo and call.excinfo.value)

    def count(self, name: str, error: Optional[BaseException]) -> None:
        """Counts a test that has raised this error, or that has passed."""
        if error is not None:
            outcome = self.reason(name, error)
            self.failures.append(f"{outcome}: {name}: {error}")
        elif record.refusals:
            outcome = "passed: it expects an error"
        else:
            outcome = "passed" if record.has_run else "passed: without gpuvec"
        self.counts[outcome] += 1

    def reason(self, name: str, error: BaseException) -> str:
        """Returns why a test has failed."""
        refusal = refusal_of(error)
        if refusal is not None:
            for pattern, reason in REFUSALS.items():
                if re.search(pattern, str(refusal)):
                    return f"refused: {reason}"
        else:
            for pattern, reason in DIFFERENCES.items():
                if re.search(pattern, f"{name}: {error}", re.DOTALL):
                    return f"different: {reason}"
        self.unknown.append(f"{name}: {type(refusal or error).__name__}: {refusal or error}")
        return "unknown"


def refusal_of(error: Optional[BaseException]) -> Optional[BaseException]:
    """Returns an error, or one of its causes, that is a refusal."""
    while error is not None and not getattr(error, "is_refusal", False):
        error = error.__cause__ or error.__context__
    return error


def is_as_documented(suite: Suite, prints_failures: bool) -> bool:
    """Runs tests; returns whether every outcome has a known reason, and is counted in the table."""
    report = Report(suite.release)
    plugins = ["no:cacheprovider", "no:warnings", "no:terminal", "no:xdist"]
    off = [part for plugin in plugins for part in ("-p", plugin)]
    pytest.main(["-c", os.devnull, *off, *suite.options, *suite.files], plugins=[report])
    report.shown.close()
    print(f"{suite.release}:")
    for outcome, count in sorted(report.counts.items()):
        print(f"| {outcome} | {count:,} |")
    if prints_failures:
        print(*report.failures, sep="\n")
    print(*(f"unknown: {each}" for each in report.unknown), sep="\n")
    changed = suite.documented() != dict(report.counts)
    if changed:
        print(f"these are not the counts of {PAGE}")
    return not report.unknown and not changed


def main() -> None:
    """Runs the tests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--failures", action="store_true")
    parser.add_argument("--only", choices=("numexpr", "pandas", "array-api"))
    parser.add_argument("--array-api", type=Path, metavar="CHECKOUT")
    options = parser.parse_args()
    folders = [str(HERE), str(ROOT / "python")]
    sys.path[:0] = folders
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    suites = {"numexpr": of_numexpr, "pandas": of_pandas}
    if options.array_api:
        suites["array-api"] = partial(of_array_api, options.array_api)
    if options.only == "array-api" and not options.array_api:
        parser.error("pass --array-api CHECKOUT: docs/reference/peers.md says how to make one")
    chosen = [suites[options.only]] if options.only else suites.values()
    results = [is_as_documented(suite(), options.failures) for suite in chosen]
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
