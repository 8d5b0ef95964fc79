"""The benchmark in its smallest setting: its tables agree with its data.

Times are not judged: every contender, ceiling and target must be present or named as missing.
"""

import importlib
import json
import os
import re
import sys

import pytest
from bindings import LIBRARY, ROOT, lib
from programs import library_environment, run

HAS_GPU = lib.gpuvec_device_count() > 0
NEEDS_GPU = pytest.mark.skipif(not HAS_GPU, reason="needs a GPU")
KINDS = ["pageable", "pinned", "device"] if HAS_GPU else ["pageable"]
TINY = ["--seconds-per-point", "0.001", "--ceiling-bytes", "1e6", "--dtypes", "f32"]


def bench(folder, *options: str) -> tuple[dict, str]:
    """A run's data and its tables."""
    command = [sys.executable, ROOT / "benches/bench.py", "--output", folder, *TINY, *options]
    run(command)
    return json.loads((folder / "bench.json").read_text()), (folder / "bench.md").read_text()


@pytest.fixture(scope="module")
def everything(tmp_path_factory) -> tuple[dict, str]:
    """A run with all parts at two lengths."""
    folder = tmp_path_factory.mktemp("bench")
    return bench(
        folder, "--n", "10,1000", "--parts", "ceilings,calls,sweep,first,libraries", "--quick"
    )


def test_every_point_has_every_placement_and_numpy(everything):
    data, _ = everything
    keys = [(point["kind"], point["n"], point["op"]) for point in data["points"]]
    assert keys == [(kind, n, op) for kind in KINDS for n in (10, 1000) for op in ("add", "dot")]
    for point in data["points"]:
        expected = ["gpuvec auto", "gpuvec auto, Python"]
        expected += ["gpuvec gpu"] if HAS_GPU else []
        if point["kind"] != "device":
            expected += ["gpuvec cpu", "NumPy", "plain C loop"]
        assert set(expected) <= set(point["results"])


@pytest.mark.parametrize(
    "calls, claim",
    [
        (["3ops", "black-scholes", "sum-sqrt"], "formulas of several operations"),
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
    for point in [*data["points"], *data["sweep"]]:
        for result in point["results"].values():
            spread = [result[f"{name}_us"] for name in ("min", "low", "median", "high", "max")]
            assert spread == sorted(spread) and spread[0] > 0
            assert result["batches"] >= 3


def test_the_tables_show_the_measurements(everything):
    data, text = everything
    titles = [f"## {op}, f32, {kind} arrays" for kind in KINDS for op in ("add", "dot")]
    for title in [*titles, "## Targets", "## Ceilings", "## Placement auto, f32"]:
        assert title in text
    for target in data["targets"]:
        assert target["text"] in text
    for ceiling in data["ceilings"].values():
        assert ceiling["what"] in text
    for what in data["first_call"]:
        assert what in text


def test_libraries_are_called_from_python(everything):
    data, _ = everything
    cases = [(row["n"], row["call"]) for row in data["libraries"]]
    calls = ["add", "dot", "3ops", "exp", "black-scholes", "sum-sqrt"]
    assert cases == [(n, call) for n in (10, 1000) for call in calls]
    assert all({"gpuvec", "NumPy"} <= row["us"].keys() for row in data["libraries"])


def test_missing_peers_are_named(everything):
    data, text = everything
    peers = ["NumPy", "numexpr", "PyTorch CPU", "CuPy", "PyTorch CUDA", "Numba", "naive C"]
    for peer in peers:
        assert (peer in data["versions"]) != (peer in data["missing"])
    for name, why in data["missing"].items():
        assert f"- missing: {name}: {why}" in text
    assert not data.get("failed")
    ceilings = {"memcpy_core", "memcpy_cores"}
    if HAS_GPU:
        ceilings |= {"to_device", "both_ways", "device_copy", "launch_synchronize"}
    assert ceilings <= set(data["ceilings"])
    kernels = {"zero_copy_read", "fma_dot_f32", "fma_dot_f64", "plain_sum_f32", "plain_sum_f64"}
    kernels |= {"zero_copy_add", "launch_pinned_1000"}
    seen = set(data["ceilings"]) | set(data["missing"])
    assert kernels <= seen if HAS_GPU else "GPU" in data["missing"]


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


def test_filters_choose_one_point(tmp_path):
    data, _ = bench(tmp_path, "--n", "1e2", "--only", "dot", "--kinds", "pageable")
    assert [(point["op"], point["n"]) for point in data["points"]] == [("dot", 100)]
    assert "sweep" not in data and "first_call" not in data


@NEEDS_GPU
def test_every_kernel_has_a_line(tmp_path):
    data, text = bench(tmp_path, "--parts", "ceilings,kernels", "--quick")
    kernels = {line["kernel"]: line for line in data["kernels"]}
    assert "copy_bytes" in kernels
    assert kernels["axpy_f64"]["bytes per element"] == 24
    assert kernels["sum_i32"]["bytes per element"] == 4
    assert all(f"| {name} |" in text for name in kernels)


@NEEDS_GPU
@pytest.mark.parametrize("part", ["hybrid", "pinning"])
def test_alternatives_are_measured(tmp_path, part):
    data, text = bench(tmp_path, f"--{part}", "--n", "1e6", "--quick")
    assert len(data[part]) > 10
    assert all(f"| {row['what']} |" in text for row in data[part])


@NEEDS_GPU
def test_kept_memory_is_measured(tmp_path):
    data, text = bench(tmp_path, "--scratch", "--scratch-n", "1e3", "--scratch-calls", "10")
    rows = [row["after"] for row in data["scratch"]]
    assert rows[0] == "gpuvec_init" and "add pinned n = 1,000" in rows
    assert all(after in text for after in rows)


def test_the_tested_library_is_measured(everything):
    data, _ = everything
    assert data["versions"]["gpuvec"] == lib.gpuvec_version().decode()
    assert data["settings"]["library"] == str(LIBRARY)


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


def test_the_committed_page_shows_the_committed_data(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benches")
    page = importlib.import_module("page")
    folder = ROOT / "docs/benchmarks"
    written = (folder / "bench.json").read_text()
    data = json.loads(written)
    assert len(written) < 200_000
    assert page.as_text(page.page_data(data)) == written
    text = (folder / "index.md").read_text()
    assert page.text(data) == text
    assert not data.get("failed")
    figures = re.findall(r"\((\w+\.svg)\)", text)
    assert set(figures) == {file.name for file in folder.glob("*.svg")}


@pytest.mark.parametrize(
    "program, options, fields",
    [
        ("functions.py", ["exp"], ["what", "gpuvec", "NumPy", "PyTorch"]),
        pytest.param(
            *("function_rates.py", ["exp", "--n", "1000"], ["what", "ms", "of copy"]),
            marks=NEEDS_GPU,
        ),
        pytest.param(
            *("axes_rates.py", ["--n", "1e4"], ["what", "ms", "GB/s", "of copy"]),
            marks=[NEEDS_GPU, pytest.mark.long],
        ),
    ],
)
def test_programs_print_their_rows_as_text_or_as_json(program, options, fields):
    command = [sys.executable, ROOT / "benches" / program, *options]
    printed = run([*command, "--json"], env=library_environment())
    rows = [json.loads(line) for line in printed.splitlines()]
    for row in rows:
        assert list(row)[: len(fields)] == fields
        assert all(row[field] > 0 for field in fields[1:] if row[field] is not None)
    if program == "functions.py":
        text = run(command, env=library_environment())
        assert text.split()[:4] == ["gpuvec", "NumPy", "PyTorch", "exp"]
