"""The crates that gpuvec is built from, as cargo tells them."""

import json
import subprocess
from pathlib import Path

# The processors that gpuvec has code for.
PROCESSORS = ("x86_64", "aarch64")


def target(processor: str) -> str:
    """Returns Rust's name of a processor with Linux and glibc."""
    return f"{processor}-unknown-linux-gnu"


def metadata(root: Path) -> dict:
    """Returns `cargo metadata` for all targets that gpuvec has."""
    platforms = [f"--filter-platform={target(processor)}" for processor in PROCESSORS]
    command = ["cargo", "metadata", "--format-version=1", "--locked", *platforms]
    return json.loads(subprocess.check_output(command, cwd=root))


def built_crates(root: Path) -> list[dict]:
    """The crates of others that a build of the wheel compiles."""
    return reached(metadata(root), {None, "build"}, macros=True)


def linked_crates(root: Path) -> list[dict]:
    """The third-party crates from which the wheel may contain code."""
    return reached(metadata(root), {None}, macros=False)


def reached(facts: dict, kinds: set, macros: bool) -> list[dict]:
    """The crates of others that the wheel's two crates need, by dependencies of these kinds.

    None is a normal one.
    """
    crates = {crate["id"]: crate for crate in facts["packages"]}
    dependencies = {node["id"]: node["deps"] for node in facts["resolve"]["nodes"]}
    found, waiting = set(), list(facts["workspace_default_members"])
    while waiting:
        crate = waiting.pop()
        if crate not in found and (macros or not is_macro(crates[crate])):
            found.add(crate)
            waiting += [
                dependency["pkg"]
                for dependency in dependencies[crate]
                if kinds & {kind["kind"] for kind in dependency["dep_kinds"]}
            ]
    return [crates[crate] for crate in found if crates[crate]["source"]]


def is_macro(crate: dict) -> bool:
    """Returns whether the compiler runs the crate."""
    return any("proc-macro" in target["kind"] for target in crate["targets"])
