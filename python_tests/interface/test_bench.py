"""The benchmark in its smallest setting: its tables agree with its rows.

Times are not judged: every contender, ceiling and target must be present or named as missing.
"""

import importlib
import json
import os
import random
import re
import sys
from argparse import Namespace
from itertools import combinations
from statistics import geometric_mean

import pytest
from bindings import LIBRARY, ROOT, lib
from programs import library_environment, run

HAS_GPU = lib.gpuvec_device_count() > 0
NEEDS_GPU = pytest.mark.skipif(not HAS_GPU, reason="needs a GPU")
HOST = ["pageable", "pinned"] if HAS_GPU else ["pageable"]
FIXED = [f"gpuvec {name}" for name in (["gpu", "cpu", "all"] if HAS_GPU else ["cpu", "all"])]
TINY = ["--seconds", "0.001", "--bytes", "1e6", "--rounds", "3"]
SIX = ["add", "dot", "a*b + a - 2", "exp", "Black-Scholes", "sum(sqrt)"]


def bench(folder, *suites: str, options: tuple = ()) -> tuple[dict, str]:
    """Measures suites; returns the rows and the tables."""
    command = [sys.executable, ROOT / "benches/bench.py", "--output", folder, *TINY]
    run([*command, "--suite", *suites, *options], env=library_environment())
    name = "-".join(suites)
    return json.loads((folder / f"{name}.json").read_text()), (folder / f"{name}.md").read_text()


def rows_of(suite: str, *options: str) -> list[dict]:
    """Measures a suite; returns the rows that it prints."""
    command = [sys.executable, ROOT / "benches/bench.py", "--json", *TINY, "--suite", suite]
    printed = run([*command, *options], env=library_environment())
    return [json.loads(line) for line in printed.splitlines()]


@pytest.fixture(scope="module")
def module_of():
    """Imports a module of the benchmark."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benches")
        yield importlib.import_module


@pytest.fixture(scope="module")
def everything(tmp_path_factory) -> tuple[dict, str]:
    """A run of some suites at two lengths."""
    folder = tmp_path_factory.mktemp("bench")
    options = ("--n", "10", "1000", "--types", "f32")
    return bench(folder, "ceilings", "calls", "libraries", "sweep", options=options)


def test_every_case_has_every_placement_and_numpy(everything):
    data, _ = everything
    kinds = [*HOST, *["device"] * HAS_GPU]
    cases = {(row["kind"], row["n"], row["call"]) for row in data["calls"]}
    wanted = {(kind, n, call) for kind in kinds for n in (10, 1000) for call in ("add", "dot")}
    assert cases == wanted and len(data["calls"]) == len(wanted)
    for row in data["calls"]:
        expected = ["gpuvec auto", "gpuvec", *["gpuvec gpu"] * HAS_GPU]
        if row["kind"] != "device":
            expected += ["gpuvec cpu", "gpuvec auto, ctypes", "NumPy", "plain C loop"]
        assert set(expected) <= set(row["us"])


@pytest.mark.parametrize(
    "calls, claim",
    [
        (["a*b + a - 2", "Black-Scholes", "sum(sqrt)"], "formulas of several operations"),
        (["add"], "additions"),
        (["dot"], "dot products"),
        (["exp"], "`exp`"),
    ],
)
def test_the_faq_has_the_speeds_of_the_benchmarks(calls, claim):
    """From the smallest to the greatest ratio to the fastest other library, of 10^5 elements on."""
    rows = json.loads((ROOT / "docs/benchmarks/bench.json").read_text())["libraries"]
    times = [row["us"] for row in rows if row["call"] in calls and row["n"] >= 100_000]
    others = [min(us for name, us in row.items() if name != "gpuvec") for row in times]
    ratios = sorted(other / row["gpuvec"] for other, row in zip(others, times))
    faq = (ROOT / "docs/faq.md").read_text()
    assert f"- {ratios[0]:.1f} to {ratios[-1]:.1f} times as fast for {claim}" in faq


def test_medians_lie_within_their_spread(everything):
    data, _ = everything
    for row in [*data["calls"], *data["sweep"], *data["libraries"]]:
        for name, us in row["us"].items():
            least, low, high, most = row["spread"][name]
            assert 0 < least <= low <= us <= high <= most


def test_contenders_take_a_turn_in_each_round(module_of):
    harness, turns = module_of("harness"), []

    def contender(name: str):
        def batch(calls: int) -> float:
            turns.append(name)
            return 1e-3 * calls

        return harness.Contender(name, batch)

    row = harness.measure([contender("a"), contender("b")], seconds=0, rounds=4)
    assert row["us"] == {"a": 1000, "b": 1000}
    # After five calls to warm up, each round has a call after a pause, and a batch.
    in_rounds = turns[10:]
    assert len(in_rounds) == 2 * 2 * 4
    for start in range(0, len(in_rounds), 4):
        first, again, second, _ = in_rounds[start : start + 4]
        assert first == again and {first, second} == {"a", "b"}


def test_the_tables_show_the_measurements(everything):
    data, text = everything
    for title in ("## calls", "## Targets", "## Ceilings", "## sweep", "## libraries"):
        assert title in text
    for kind in HOST:
        assert f"add, f32, {kind}:" in text
    for target in data["targets"]:
        assert target["text"] in text
    for row in data["ceilings"]:
        assert row["what"] in text


def test_libraries_are_called_from_python(everything):
    data, _ = everything
    cases = {(row["n"], row["call"]) for row in data["libraries"]}
    assert cases == {(n, call) for n in (10, 1000) for call in SIX}
    for row in data["libraries"]:
        assert {"gpuvec", "NumPy"} <= row["us"].keys() and not row["missing"]


def test_missing_peers_are_named(everything):
    data, text = everything
    peers = ["NumPy", "numexpr", "PyTorch CPU", "CuPy", "PyTorch CUDA", "Numba", "naive C"]
    for peer in peers:
        assert (peer in data["versions"]) != (peer in data["missing"])
    for name, why in data["missing"].items():
        assert f"- missing: {name}: {why}" in text
    assert not data.get("failed")
    ceilings = {row["name"] for row in data["ceilings"]}
    assert {"memcpy_core", "memcpy_cores"} <= ceilings
    wanted = {"to_device", "both_ways", "device_copy", "launch_synchronize", "zero_copy_read"}
    wanted |= {"fma_dot_f32", "fma_dot_f64", "plain_sum_f32", "plain_sum_f64", "zero_copy_add"}
    assert wanted <= ceilings | set(data["missing"]) if HAS_GPU else "GPU" in data["missing"]


def test_targets_of_measured_cases_are_evaluated(everything):
    data, text = everything
    judged = {target["text"]: target["reached"] for target in data["targets"]}
    assert judged["pageable add f32 1e3, placement auto: more than a plain C loop"] is not None
    assert judged["pinned add f32 1e8: against the fastest GPU peer"] is None
    for target in data["targets"]:
        if target["reached"] is not None:
            at_least = target["figure"] >= target["limit"]
            at_most = target["figure"] <= target["limit"]
            assert target["reached"] == (at_least if target["at_least"] else at_most)
    marks = {True: "| reached |", False: "| **MISSED** |", None: "| not measured |"}
    assert all(text.count(marks[mark]) == list(judged.values()).count(mark) for mark in marks)


def test_the_tested_library_is_measured(everything):
    data, _ = everything
    assert data["versions"]["gpuvec"] == lib.gpuvec_version().decode()
    assert data["settings"]["library"] == str(LIBRARY)


def test_options_choose_cases_contenders_and_placements():
    options = ["--calls", "dot", "2*a + b", "--kinds", "pageable", "--n", "1e2", "--types", "f64"]
    options += ["--placements", "cpu", "--callers", "c", "--peers", "NumPy", "plain C loop"]
    notes, *rows = rows_of("calls", *options)
    assert set(notes) == {"versions", "missing"}
    assert {(row["call"], row["dtype"], row["n"]) for row in rows} == {
        *(("dot", "f64", 100), ("2*a + b", "f64", 100))
    }
    assert all(list(row["us"]) == ["gpuvec cpu", "NumPy", "plain C loop"] for row in rows)


def test_a_wrong_result_is_left_out_and_named(module_of):
    grid, cases = module_of("grid"), module_of("cases")
    arrays = cases.Arrays("f32", "pageable", 10, None)
    data = cases.Data(cases.Case("add", "f32", "pageable", 10), arrays)

    def writes(value: float):
        return grid.Contender("", lambda calls: data.out.__setitem__(slice(None), value) or 1.0)

    named = {"gpuvec cpu": 1.0, "gpuvec all": 1.0 + 2**-20, "near": 1.0001, "far": 1.1}
    contenders = [writes(value)._replace(name=name) for name, value in named.items()]
    failures: dict[str, str] = {}
    case_grid = grid.Grid.__new__(grid.Grid)
    case_grid.given = Namespace(placements=["cpu"])
    checked = case_grid.checked(data, contenders, failures)
    assert [one.name for one in checked] == ["gpuvec cpu", "near"]
    assert list(failures) == ["gpuvec all", "far"]


@pytest.mark.parametrize("suite", ["axes", "strides"])
def test_arrays_of_several_axes_are_measured_beside_a_copy(suite):
    _, copy, *rows = rows_of(suite, "--n", "1e4", "--kinds", "pageable")
    assert copy["of copy"]["gpuvec"] == pytest.approx(1) and len(rows) >= 10
    for row in rows:
        share = row["bytes"] / row["us"]["gpuvec"] * copy["us"]["gpuvec"] / copy["bytes"]
        assert row["of copy"]["gpuvec"] == pytest.approx(share)
        assert "NumPy" in row["us"]


def test_sums_by_key_are_measured_beside_a_copy():
    rows = rows_of("by-key-core", "--n", "100", "--types", "f64")
    assert {"of copy", "GB/s"} <= rows[1].keys()
    assert ["f64, 2 uniform keys", "f64, 100 sorted keys"] == [rows[i]["what"] for i in (2, -1)]
    assert all({"gpuvec", "NumPy bincount"} <= row["us"].keys() for row in rows[2:])


def test_first_calls_are_measured_in_new_processes():
    rows = {row["what"]: row["us"] for row in rows_of("first", "--calls", "exp", "--rounds", "1")}
    for what in ["load", "init", *["bare", "add", "exp"] * HAS_GPU]:
        assert rows[what].keys() == {"empty cache", "warm cache"}
    assert rows["a text of 24 operations, compiled"]["library"] > 0


def test_calls_from_python_are_measured_beside_numpy():
    rows = {row["what"]: row for row in rows_of("python") if "what" in row}
    assert {"gpuvec", "NumPy"} == rows["operation, out="]["us"].keys()
    assert {"ctypes"} == rows["by ctypes, ndpointer"]["us"].keys()
    assert rows["import gpuvec, after NumPy"]["us"]["gpuvec"] > 0
    assert ("by DLPack" in rows) == HAS_GPU


def test_the_exact_result_is_beside_those_of_libraries():
    rows = {row.pop("dot of two arrays of", ""): row for row in rows_of("exactness", "--n", "1e4")}
    assert rows["`gpuvec.dot`"] == rows["the exact value, rounded"]
    assert rows["`gpuvec.dot`"] != rows["`numpy.dot`"]


@NEEDS_GPU
def test_every_kernel_has_a_line(tmp_path):
    data, text = bench(tmp_path, "ceilings", "kernels")
    kernels = {line["kernel"]: line for line in data["kernels"]}
    assert "copy_bytes" in kernels
    assert kernels["axpy_f64"]["bytes per element"] == 24
    assert kernels["sum_i32"]["bytes per element"] == 4
    assert all(f"| {name} |" in text for name in kernels)


@NEEDS_GPU
def test_functions_on_the_device_are_measured_beside_a_copy():
    [row] = rows_of("functions-device", "--n", "1000", "--calls", "exp(x)")
    assert row["what"] == "exp(x)"
    assert 0 < row["least"] <= row["of copy"] <= row["most"]


def test_the_page_is_made_from_the_data_alone(everything, tmp_path):
    pytest.importorskip("matplotlib")
    data, _ = everything
    elsewhere = {**data, "machine": {**data["machine"], "gpu": "another GPU"}}
    (tmp_path / "bench.json").write_text(json.dumps(elsewhere))
    command = [sys.executable, ROOT / "benches/page.py", tmp_path / "bench.json"]
    # Without the tests' path, as `make bench` runs it.
    variables = {key: text for key, text in os.environ.items() if key != "PYTHONPATH"}
    run([*command, tmp_path / "page"], env=variables)
    text = (tmp_path / "page/index.md").read_text()
    assert "another GPU" in text and data["versions"]["NumPy"] in text
    for name in ("auto", "libraries", "placements"):
        assert f"({name}.svg)" in text
        figure = (tmp_path / "page" / f"{name}.svg").read_text()
        assert "elements" in figure and "prefers-color-scheme:dark" in figure
    assert "NumPy" in (tmp_path / "page/auto.svg").read_text()


def test_the_committed_page_shows_the_committed_data(module_of):
    page, plots = module_of("page"), (ROOT / "benches/plots.py").read_text()
    folder = ROOT / "docs/benchmarks"
    written = (folder / "bench.json").read_text()
    data = json.loads(written)
    assert len(written) < 200_000
    assert page.as_text(page.page_data(data)) == written
    text = (folder / "index.md").read_text()
    assert page.text(data) == text
    assert not data.get("failed")
    for figure in re.findall(r"\((\w+)\.svg\)", text):
        assert f'    "{figure}": ("' in plots


def test_the_committed_page_has_a_cell_for_each_call_and_length():
    """Each is gpuvec's time, and the fastest other library's time over it."""
    rows = json.loads((ROOT / "docs/benchmarks/bench.json").read_text())["libraries"]
    text = (ROOT / "docs/benchmarks/index.md").read_text()
    for row in rows:
        others = {name: us for name, us in row["us"].items() if name != "gpuvec"}
        peer = min(others, key=others.__getitem__)
        if row["n"] in (100_000, 1_000_000, 10_000_000, 100_000_000):
            assert f", {others[peer] / row['us']['gpuvec']:.2f}× ({peer}) |" in text


def test_a_sweep_has_every_case_and_placement_and_prints_their_mean(tmp_path):
    options = ("--calls", "add", "sum(sqrt)", "--n", "10", "1e3")
    data, text = bench(tmp_path, "sweep", options=options)
    rows = data["sweep"]
    cases = {(row["call"], row["dtype"], row["kind"], row["n"]) for row in rows}
    assert len(cases) == len(rows) == 2 * 2 * len(HOST) * 2
    names = {"gpuvec auto", *FIXED, "gpuvec core", "again"}
    assert all(set(row["us"]) == names for row in rows)
    assert all(row["calls_before"] == 30 or row["alone_us"] > 1000 for row in rows)
    ratios = [row["us"]["gpuvec auto"] / min(row["us"][one] for one in FIXED) for row in rows]
    assert f"geometric mean {geometric_mean(ratios):.3f}" in text
    assert f"within 1.15 in {sum(ratio <= 1.15 for ratio in ratios)} of {len(ratios)}" in text
    assert f"worst {max(ratios):.2f}" in text


def test_random_calls_are_compared_with_an_oracle(tmp_path):
    options = ("--calls", "add", "sum(sqrt)", "--n", "10", "1e3")
    data, text = bench(tmp_path, "cold", options=(*options, "--count", "60", "--seeds", "3", "4"))
    for row in data["cold"]:
        assert len(row["calls"]) == len(row["best"]) == 60
        assert {"auto", "best"} <= row["times"].keys()
        on_gpu = {placement for placement, *_ in row["best"]} & {"gpu", "all"}
        assert bool(row["ready"]) == bool(on_gpu)
        ratios = [sum(row["times"]["auto"][:n]) / least_seconds(row, n) for n in (60, 50, 60)]
        shown = " | ".join(f"{ratio:.3f}" for ratio in ratios)
        assert re.search(rf"^\| {row['seed']} .* {re.escape(shown)} ", text, re.MULTILINE)
    assert [row["seed"] for row in data["cold"]] == [3, 4]


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


def test_the_oracle_loads_the_kernels_that_pay_and_no_others(module_of):
    placement, case = module_of("placement"), module_of("cases").Case
    rng = random.Random(1)
    for _ in range(50):
        cases = [case(call, "f32", "pageable", n) for call in ("add", "dot", "exp") for n in (1, 2)]
        gpu = {one: rng.random() for one in cases}
        table = {one: placement.Best("gpu", gpu[one], gpu[one] + rng.random()) for one in cases}
        calls = rng.choices(cases, k=rng.randrange(1, 12))
        row = {
            "calls": calls,
            "best": [table[one] for one in calls],
            "times": {"auto": [], "best": [rng.random() for _ in calls]},
            "opening": 2 * rng.random(),
            "ready": {f"{one.call} f32": 2 * rng.random() for one in cases},
        }
        for count in (1, 3, len(calls)):
            oracle = placement.totals(row, count)["oracle"]
            assert oracle == pytest.approx(least_seconds(row, count))


def test_a_restricted_sweep_has_only_the_cpus_that_it_is_given(tmp_path):
    options = ("--n", "1e6", "--kinds", "pageable", "--calls", "add", "--cpus", "1")
    data, text = bench(tmp_path, "restricted", options=options)
    few, busy = dict.fromkeys(row["what"] for row in data["restricted"])
    assert few.startswith("1 of ") and busy.startswith("beside ")
    assert f"### {few}" in text and f"### {busy}" in text
    assert all(
        where in ("cpu 1", "gpu")
        for row in data["restricted"]
        for name, where in row["ran"].items()
        if row["what"] == few and name == "gpuvec auto"
    )


def test_libraries_are_compared_with_the_best_of_them(tmp_path):
    options = ("--calls", "add", "sum(sqrt)", "--n", "1e3", "1e5")
    data, text = bench(tmp_path, "libraries", options=options)
    rows = data["libraries"]
    assert len(rows) == 2 * 2
    best = [
        min(us for name, us in row["us"].items() if name != "gpuvec") / row["us"]["gpuvec"]
        for row in rows
    ]
    assert f"geometric mean {geometric_mean(best):.3f}" in text
    assert f"in {sum(ratio >= 0.95 for ratio in best)} of {len(best)}" in text


def test_scripts_take_turns_and_placement_cpu_opens_no_driver():
    rows = rows_of("script", "--rounds", "2")
    assert [row["placement"] for row in rows] == ["auto", "cpu"] * 2
    assert not any(row["driver"] for row in rows if row["placement"] == "cpu")
    assert all(0 < row["loop"] < row["process"] for row in rows)


@pytest.mark.parametrize("placement", ["auto", "cpu"])
def test_two_builds_are_compared_call_by_call(tmp_path, placement):
    options = ("--against", str(LIBRARY), "--n", "10", "--placements", placement)
    data, text = bench(tmp_path, "short", options=options)
    assert len(data["short"]) == 3
    end, ratios = f", against {LIBRARY.stem}", []
    for row in data["short"]:
        ours = [name for name in row["us"] if not name.endswith(end)]
        assert len(ours) == 3 and len(row["us"]) == 6
        ratios += [row["us"][f"{name}{end}"] / row["us"][name] for name in ours]
    assert f"geometric mean {geometric_mean(ratios):.3f}" in text
    assert f"below 0.97 in {sum(ratio < 0.97 for ratio in ratios)} of 9" in text
