"""The benchmark of placement auto in its smallest setting: its output agrees with its rows.

Times are not judged.
"""

import importlib
import json
import random
import re
import sys
from itertools import combinations
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


def test_random_calls_are_compared_with_an_oracle(tmp_path):
    printed, rows = part(
        tmp_path, "cold", "--sizes", "10", "1e3", "--count", "60", "--seeds", "3", "4"
    )
    for row in rows["cold"]:
        assert len(row["calls"]) == len(row["best"]) == 60
        assert {"auto", "best"} <= row["times"].keys()
        on_gpu = {placement for placement, *_ in row["best"]} & {"gpu", "all"}
        assert bool(row["ready"]) == bool(on_gpu)
        ratios = [sum(row["times"]["auto"][:n]) / least_seconds(row, n) for n in (60, 50, 60)]
        shown = " +".join(f"{ratio:.3f}" for ratio in ratios)
        assert re.search(rf"^{row['seed']} .* {shown}$", printed, re.MULTILINE)
    assert [row["seed"] for row in rows["cold"]] == [3, 4]


def least_seconds(row: dict, count: int) -> float:
    """Returns the least seconds of the first calls, over all sets of kernels that may be loaded."""
    calls = [
        (f"{call} {dtype}", seconds, on_cores - median)
        for (call, dtype, *_), seconds, (_, median, on_cores) in zip(
            row["calls"], row["times"]["best"], row["best"]
        )
    ]
    names = sorted({name for name, *_ in calls})

    def seconds(loaded: set[str]) -> float:
        total = sum(row["ready"].get(name, 0) for name in loaded) + row["opening"] * bool(loaded)
        for name, best, loss in calls[:count]:
            total += best if name in loaded else best + loss
        return total

    sets = (set(some) for n in range(len(names) + 1) for some in combinations(names, n))
    return min(map(seconds, sets))


def test_the_oracle_loads_the_kernels_that_pay_and_no_others(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benches")
    cold = importlib.import_module("placement_cold")
    case = importlib.import_module("placement_calls").Case
    rng = random.Random(1)
    for _ in range(50):
        cases = [case(call, "f32", "pageable", n) for call in ("add", "dot", "exp") for n in (1, 2)]
        gpu = {one: rng.random() for one in cases}
        table = {one: cold.Best("gpu", gpu[one], gpu[one] + rng.random()) for one in cases}
        calls = rng.choices(cases, k=rng.randrange(1, 12))
        row = {
            "calls": calls,
            "best": [table[one] for one in calls],
            "times": {"auto": [], "best": [rng.random() for _ in calls]},
            "opening": 2 * rng.random(),
            "ready": {f"{one.call} f32": 2 * rng.random() for one in cases},
        }
        for count in (1, 3, len(calls)):
            assert cold.totals(row, count)["oracle"] == pytest.approx(least_seconds(row, count))


def test_a_restricted_sweep_has_only_the_cpus_that_it_is_given(tmp_path):
    sizes = ["--sizes", "1e6", "--kinds", "pageable", "--calls", "add"]
    _, rows = part(tmp_path, "restricted", "--cpus", "1", *sizes)
    assert list(rows) == ["cpus1", "busy"]
    assert all(row["ran"]["auto"] in ("cpu 1", "gpu") for row in rows["cpus1"])


def test_peers_compute_the_same(tmp_path):
    printed, rows = part(tmp_path, "peers", "--sizes", "1e3", "1e5")
    assert len(rows["peers"]) == 2 * 2 * 2
    for row in rows["peers"]:
        assert not row["failures"]
        assert {"gpuvec", "NumPy"} <= row["us"].keys()
    best = [
        min(us for name, us in row["us"].items() if name != "gpuvec") / row["us"]["gpuvec"]
        for row in rows["peers"]
    ]
    kept = f"in {sum(ratio >= 0.95 for ratio in best)} of {len(best)}"
    for text in (printed, (tmp_path / "peers.md").read_text()):
        assert f"geometric mean {geometric_mean(best):.3f}" in text
        assert kept in text


def test_the_table_for_the_readme_has_the_f32_calls_by_length(tmp_path):
    _, rows = part(tmp_path, "peers", "--sizes", "1e3", "1e5")
    heads, _, *lines = (tmp_path / "peers.md").read_text().splitlines()[:-2]
    assert [cell.strip() for cell in heads.split("|")[2:-1]] == ["100,000"]
    shown = [row for row in rows["peers"] if (row["dtype"], row["n"]) == ("f32", 100_000)]
    assert len(lines) == len(shown) == 2
    for row, line in zip(shown, lines):
        peer, us = min(
            ((name, us) for name, us in row["us"].items() if name != "gpuvec"),
            key=lambda pair: pair[1],
        )
        assert line.endswith(f", {us / row['us']['gpuvec']:.2f}× ({peer}) |")


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
