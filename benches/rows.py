"""The rows of programs that the benchmark runs: each prints them as text, or as JSON with --json.

A process of its own, because it has one placement and one number of threads.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
FOLDER = Path(__file__).resolve().parent
OPTION = "--json"


def parser(doc: str) -> argparse.ArgumentParser:
    """Returns a parser of a program's options with the choice of its output."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(OPTION, dest="is_json", action="store_true", help="print rows as JSON")
    return made


def show(rows: Iterable[Row], text: Callable[[Row], str], is_json: bool) -> None:
    """Prints each row as soon as it is measured."""
    for row in rows:
        print(json.dumps(row) if is_json else text(row), flush=True)


def of_program(program: str, *options: str, seconds: float, **environment: str) -> list[Row]:
    """Runs a program of this folder until its time limit, and returns its rows."""
    from programs import library_environment

    command = ["timeout", f"{seconds:.0f}", sys.executable, str(FOLDER / program), *options]
    done = subprocess.run(
        command, env=library_environment(**environment), capture_output=True, text=True
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode and not rows:
        raise RuntimeError(f"{program}: exit status {done.returncode}: {done.stderr[-500:]}")
    return rows
