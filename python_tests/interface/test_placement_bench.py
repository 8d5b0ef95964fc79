"""The benchmark of placement auto in its smallest setting: what it prints agrees with its rows.

Times are not judged.
"""

import json
import re
import sys
from statistics import geometric_mean

import pytest
from bindings import LIBRARY, ROOT, lib
from programs import library_environment, run

HAS_GPU = lib.gpuvec_device_count() > 0
KINDS = ["pageable", "pinned"] if HAS_GPU else ["pageable"]
FIXED = ["gpu", "cpu", "all"] if HAS_GPU else ["cpu", "all"]
TINY = ["--seconds", "0.001", "--calls", "add", "sum-sqrt"]


def part(folder, name: str, *options: str) -> tuple[str, dict]:
    """Runs a part; returns what it prints, and the rows of all parts that ran in the folder."""
    command = [sys.executable, ROOT / "benches/placement.py", name, "--output", folder]
    printed = run([*command, *TINY, *options], env=library_environment())
    parts = json.loads((folder / "placement.json").read_text())
    return printed, {name: found["rows"] for name, found in parts.items()}


def test_a_sweep_has_every_case_and_placement_and_prints_their_mean(tmp_path):
    printed, rows = part(tmp_path, "sweep", "--sizes", "10", "1e3")
    cases = {(row["call"], row["dtype"], row["kind"], row["n"]) for row in rows["sweep"]}
    assert len(cases) == len(rows["sweep"]) == 2 * 2 * len(KINDS) * 2
    assert all(list(row["us"]) == ["auto", *FIXED, "core", "again"] for row in rows["sweep"])
    assert all(row["calls_before"] == 30 or row["alone_us"] > 1000 for row in rows["sweep"])
    ratios = [row["us"]["auto"] / min(row["us"][one] for one in FIXED) for row in rows["sweep"]]
    assert f"geometric mean {geometric_mean(ratios):.3f}" in printed
    assert f"within 1.15 in {sum(ratio <= 1.15 for ratio in ratios)} of {len(ratios)}" in printed
    assert f"worst {max(ratios):.2f}" in printed


def test_random_calls_are_compared_with_the_best_choices(tmp_path):
    printed, rows = part(
        tmp_path, "cold", "--sizes", "10", "1e3", "--count", "60", "--seeds", "3", "4"
    )
    for row in rows["cold"]:
        assert len(row["calls"]) == len(row["best"]) == 60
        assert {"auto", "best"} <= row["times"].keys()
        ratio = sum(row["times"]["auto"]) / sum(seconds for _, seconds in row["best"])
        assert re.search(rf"^{row['seed']} .* {ratio:.3f} ", printed, re.MULTILINE)
    assert [row["seed"] for row in rows["cold"]] == [3, 4]


def test_a_restricted_sweep_has_only_the_cpus_that_it_is_given(tmp_path):
    sizes = ["--sizes", "1e6", "--kinds", "pageable", "--calls", "add"]
    _, rows = part(tmp_path, "restricted", "--cpus", "1", *sizes)
    assert list(rows) == ["cpus1", "busy"]
    assert all(row["ran"] in ("cpu 1", "gpu") for row in rows["cpus1"])


def test_peers_compute_the_same(tmp_path):
    printed, rows = part(tmp_path, "peers", "--sizes", "1e3", "1e4")
    assert len(rows["peers"]) == 2 * 2 * 2
    for row in rows["peers"]:
        assert not row["failures"]
        assert {"gpuvec", "NumPy"} <= row["us"].keys()
    best = [
        min(us for name, us in row["us"].items() if name != "gpuvec") / row["us"]["gpuvec"]
        for row in rows["peers"]
    ]
    assert f"geometric mean {geometric_mean(best):.3f}" in printed


def test_scripts_take_turns_and_placement_cpu_opens_no_driver(tmp_path):
    _, rows = part(tmp_path, "script", "--repetitions", "2")
    assert [row["placement"] for row in rows["script"]] == ["auto", "cpu"] * 2
    assert not any(row["driver"] for row in rows["script"] if row["placement"] == "cpu")
    assert all(0 < row["loop"] < row["process"] for row in rows["script"])


@pytest.mark.parametrize("placement", ["auto", "cpu"])
def test_two_builds_are_compared_call_by_call(tmp_path, placement):
    libraries = ["--libraries", str(LIBRARY), str(LIBRARY)]
    printed, rows = part(tmp_path, "small", *libraries, "--sizes", "10", "--placements", placement)
    ratios = [row["ns"]["after"] / row["ns"]["before"] for row in rows["small"]]
    assert len(ratios) == 2
    assert f"geometric mean {geometric_mean(ratios):.3f}" in printed
