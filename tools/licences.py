"""Checks the licences and sources of every package in Cargo.lock against deny.toml, offline.

For machines without cargo-deny, which checks the same and more; needs Python 3.11. Prints the
packages that are not allowed, and exits 1 if there are any.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[1]


def packages(target: str) -> list[dict]:
    """Returns the packages of a build for `target`, including tests and build scripts."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", target]
    metadata = json.loads(subprocess.check_output(command, cwd=ROOT))
    used = {node["id"] for node in metadata["resolve"]["nodes"]}
    return [package for package in metadata["packages"] if package["id"] in used]


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Returns whether allowed licences meet an SPDX expression (with the old "/" for OR)."""
    tokens = re.findall(r"[()/]|[^\s()/]+(?: WITH \S+)?", expression)

    def alternatives() -> bool:
        met = requirements()
        while tokens and tokens[0] in ("OR", "/"):
            tokens.pop(0)
            met = requirements() or met
        return met

    def requirements() -> bool:
        met = licence()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            met = licence() and met
        return met

    def licence() -> bool:
        token = tokens.pop(0)
        if token != "(":
            return token in allowed
        met = alternatives()
        tokens.pop(0)
        return met

    return alternatives()


def main() -> int:
    """Prints the findings; returns their number, at most 1."""
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    exceptions = {entry["crate"]: entry["allow"] for entry in rules["licenses"]["exceptions"]}
    used = packages(rules["graph"]["targets"][0])
    wrong = []
    for package in used:
        name, licence = package["name"], package["license"] or "none"
        if not is_allowed(licence, {*rules["licenses"]["allow"], *exceptions.get(name, [])}):
            wrong.append(f"{name}: the licence {licence} is not allowed by deny.toml")
    sources = {package["source"] for package in used} - {None}
    if len(sources) > 1 or not all(source.startswith("registry+") for source in sources):
        wrong.append(f"not all packages are from one registry: {sorted(sources)}")
    print("\n".join(wrong) or f"{len(used)} packages, all under licences that deny.toml allows")
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
