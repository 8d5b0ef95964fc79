"""Prints how many lines of code the tests ran, by folder: the end of `make coverage`.

    python tools/coverage.py LLVM BUILT

LLVM is the folder of llvm-cov. BUILT has the counters in profiles/, and cargo's messages about the
test programs in artifacts.json. Writes the lines that did not run to uncovered.txt there, as
ranges. Tests are left out, and crates that only tests use are listed apart.
"""

import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOR_TESTS = {f"crates/{name}" for name in ("emulator", "fake_driver", "oracle", "find_cuda_helper")}
IS_TEST = re.compile(r"(^|/)(tests/|(\w+_)?tests\.rs$)")
BEGINS_TEST = re.compile(r"( *)#\[cfg\((all\()?test\b")


def objects(built: Path) -> list:
    """Returns the test programs, and the libraries that the Python tests load."""
    messages = map(json.loads, (built / "artifacts.json").read_text().splitlines())
    programs = [message["executable"] for message in messages if message.get("executable")]
    libraries = [*built.glob("*/fast/libgpuvec.so"), *built.glob("*/fast/libgpuvec_python.so")]
    return [*libraries, *programs]


def test_lines(source: Path) -> set:
    """Returns the lines of the items that only tests have, as rustfmt lays them out."""
    inside, end = set(), None
    for number, line in enumerate(source.read_text().splitlines(), 1):
        begins = BEGINS_TEST.match(line)
        if end is None and begins:
            end = re.compile(rf"{begins[1]}(\}}|\S.*[;}}]$)")
        if end:
            inside.add(number)
            end = None if end.match(line) else end
    return inside


def executed(llvm: Path, built: Path) -> dict:
    """Returns for each file of the repository whether each line of code ran, in any program."""
    merged = built / "merged.profdata"
    raw = built.glob("profiles/*.profraw")
    subprocess.run([llvm / "llvm-profdata", "merge", "-sparse", "-o", merged, *raw], check=True)
    lines = defaultdict(dict)
    # Given several programs, llvm-cov would count a function in the first that has it alone.
    for program in objects(built):
        command = [llvm / "llvm-cov", "export", "-format=lcov", f"-instr-profile={merged}", program]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for line in text.splitlines():
            key, _, value = line.partition(":")
            if key == "SF":
                file = Path(value)
            elif key == "DA" and file.is_relative_to(ROOT):
                number, count = map(int, value.split(",")[:2])
                of_file = lines[file.relative_to(ROOT).as_posix()]
                of_file[number] = of_file.get(number, False) or count > 0
    return lines


def ranges(numbers: list) -> str:
    """Returns numbers as text: 3-5 for 3, 4, 5."""
    text = []
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        (_, first), *_, (_, last) = [*run] * 2
        text.append(f"{first}-{last}" if last > first else f"{first}")
    return " ".join(text)


def main() -> None:
    """Prints the table and writes the ranges."""
    llvm, built = map(Path, sys.argv[1:])
    covered, total, missing = Counter(), Counter(), []
    for file, lines in sorted(executed(llvm, built).items()):
        if not file.startswith(("src/", "crates/")) or IS_TEST.search(file):
            continue
        hidden = test_lines(ROOT / file)
        code = {number: ran for number, ran in sorted(lines.items()) if number not in hidden}
        room = "/".join(file.split("/")[:2])
        covered[room] += sum(code.values())
        total[room] += len(code)
        missed = [number for number, ran in code.items() if not ran]
        if missed:
            missing.append(f"{file}: {ranges(missed)}\n")
    (built / "uncovered.txt").write_text("".join(missing))
    product = [room for room in total if room not in FOR_TESTS]
    rows = [(room, covered[room], total[room]) for room in product]
    rows.append(("total", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    rows += [
        (f"{room}, for tests", covered[room], total[room])
        for room in sorted(FOR_TESTS & set(total))
    ]
    for room, ran, lines in rows:
        print(f"{room:30}{ran:8,} of {lines:7,} lines {100 * ran / lines:7.1f} %")


if __name__ == "__main__":
    main()
