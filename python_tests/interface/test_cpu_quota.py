"""The CPU quota of a control group bounds the threads, and the report of `python -m gpuvec` has it.

Needs root, and control groups of either version that root may change.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import TIMEOUT, library_environment

ROOT = Path("/sys/fs/cgroup")
PERIOD = 100_000


@pytest.fixture
def group() -> Iterator[Path]:
    """Makes a control group with a CPU controller."""
    name = f"gpuvec_test_{os.getpid()}"
    folder = next((root / name for root in (ROOT / "cpu", ROOT) if is_root(root)), None)
    if folder is None:
        pytest.skip("there is no CPU controller of control groups")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"control groups cannot be made: {error}")
    yield folder
    folder.rmdir()


def is_root(root: Path) -> bool:
    """Returns whether a folder is the root of control groups with a CPU controller."""
    return (root / "cpu.cfs_quota_us").exists() or "cpu" in read(root / "cgroup.subtree_control")


def read(path: Path) -> str:
    """Returns the text of a file; empty if there is none."""
    return path.read_text() if path.exists() else ""


def limit(group: Path, cpus: float) -> None:
    """Sets a control group's quota."""
    quota = str(int(cpus * PERIOD))
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{quota} {PERIOD}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD))
        (group / "cpu.cfs_quota_us").write_text(quota)


def report_in(group: Path) -> dict[str, str]:
    """Returns the report of a process in a control group."""

    def join() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))

    command = [sys.executable, "-m", "gpuvec"]
    variables = library_environment(GPUVEC_PLACEMENT="cpu")
    report = subprocess.run(
        command, env=variables, preexec_fn=join, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT
    )
    assert report.returncode == 0
    lines = (line.partition(":") for line in report.stdout.splitlines())
    return {name: fact.strip() for name, _, fact in lines}


def test_a_quota_bounds_the_number_of_threads(group):
    """Whole CPUs of it count, and one at least."""
    cpus = len(os.sched_getaffinity(0))
    assert report_in(group)["threads"] == str(cpus)
    for quota, threads in ((0.5, 1), (1, 1), (1.5, 1), (2, 2), (1000, 1000)):
        limit(group, quota)
        report = report_in(group)
        assert report["threads"] == str(min(threads, cpus, 256))
        assert report["CPUs"].endswith(f", {quota:g} by the control group's quota")
