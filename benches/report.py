"""Formats a run's data as Markdown."""

import bounds
from targets import CPU_PEERS, GPU_PEERS, best, us

OURS = [
    *("gpuvec auto", "gpuvec gpu", "gpuvec cpu", "gpuvec all"),
    *("gpuvec auto, no context", "gpuvec gpu, no context", "gpuvec cpu, no context"),
    *("gpuvec auto, ctypes", "gpuvec gpu, ctypes", "gpuvec cpu, ctypes"),
    "gpuvec auto, Python",
]
# Parts whose rows are printed as they are.
TABLES = {
    "kernels": "Kernels, on arrays in device memory",
    "gpus": "Several GPUs",
    "hybrid": "Cores and GPUs concurrently",
    "pinning": "Pageable arrays, page-locked per call",
    "scratch": "Memory that the library keeps",
}
MARKS = {True: "reached", False: "**MISSED**", None: "not measured"}


def unit_of(microseconds: float) -> tuple[str, float]:
    """Returns the unit that suits a time, and its microseconds."""
    units = [("s", 1e6), ("ms", 1e3), ("µs", 1.0)]
    return next((unit for unit in units if microseconds >= unit[1]), units[-1])


def number(figure: float) -> str:
    """Formats three digits; thousands with separators."""
    return f"{figure:,.0f}" if figure >= 1000 else f"{figure:.3g}"


def length_text(n: int) -> str:
    """Formats a length, a power of two as such."""
    power = n.bit_length() - 1
    return f"2^{power}" if power >= 20 and n == 1 << power else f"{n:,}"


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Formats a table."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def spread(result: dict) -> str:
    """Formats a median and its quartiles in one unit."""
    unit, size = unit_of(result["median_us"])
    middle, low, high = (number(result[f"{name}_us"] / size) for name in ("median", "low", "high"))
    return f"{middle} {unit} ({low}–{high})"


def on_gpu(case: dict, name: str) -> bool:
    """Checks if a contender ran the case on a GPU."""
    ran = case["ran"].get(name.split(",")[0])
    return ran["backend"] == "gpu" if ran else name in GPU_PEERS


def share_text(case: dict, name: str, ceilings: dict) -> tuple[str, str]:
    """Returns the share of the ceiling that a contender reaches, and the ceiling's name."""
    bound = bounds.bound(case, on_gpu(case, name), ceilings)
    if not bound:
        return "", ""
    return f"{bound.us / us(case, name):.2f}", bound.why


def against(case: dict, name: str, peers: list[str]) -> str:
    """Formats the speed relative to the fastest of some peers; bold if slower."""
    other = best(case, peers)
    if not other:
        return ""
    ratio = other[0] / us(case, name)
    text = f"{ratio:.2f} × {other[1]}"
    return text if ratio >= 1 else f"**{text}**"


def our_rows(cases: list[dict], ceilings: dict) -> list[list[str]]:
    """Makes a row for each length and placement."""
    rows = []
    for case in cases:
        for name in (name for name in OURS if name in case["results"]):
            share, why = share_text(case, name, ceilings)
            ran = case["ran"].get(name.split(",")[0], {})
            rows.append(
                [
                    *(length_text(case["n"]), name.removeprefix("gpuvec ")),
                    spread(case["results"][name]),
                    *(share, why, against(case, name, GPU_PEERS), against(case, name, CPU_PEERS)),
                    f"{ran['backend']}: {', '.join(ran['path'])}",
                ]
            )
    return rows


def peer_rows(cases: list[dict], names: list[str], ceilings: dict) -> list[list[str]]:
    """Makes a row for each length, with every peer's time and share."""
    rows = []
    for case in cases:
        cells = [length_text(case["n"])]
        for name in names:
            result = case["results"].get(name)
            share = share_text(case, name, ceilings)[0] if result else ""
            cells.append(spread(result) + (f", {share}" if share else "") if result else "–")
        rows.append(cells)
    return rows


def after_a_pause(cases: list[dict]) -> list[str]:
    """Formats the times of the first call after a pause, of gpuvec from C and every peer."""
    names = dict.fromkeys(name for case in cases for name in case["results"])
    names = [name for name in names if "," not in name and name != "gpuvec all"]
    rows = []
    for case in cases:
        seen = [case["results"].get(name, {}).get("after_pause_us") for name in names]
        if any(seen):
            cells = [f"{number(us)} µs" if us else "–" for us in seen]
            rows.append([length_text(case["n"]), *cells])
    if not rows:
        return []
    return ["The first call after a pause:", "", *table(["n", *names], rows)]


def calls(data: dict) -> list[str]:
    """Formats the tables of calls."""
    groups: dict[tuple, list[dict]] = {}
    for case in data["points"]:
        groups.setdefault((case["op"], case["dtype"], case["kind"]), []).append(case)
    lines = []
    for (op, dtype, kind), cases in groups.items():
        lines += [f"## {op}, {dtype}, {kind} arrays", ""]
        head = [
            "n",
            "placement",
            "time",
            "of ceiling",
            "ceiling",
            "× GPU peer",
            "× CPU peer",
            "ran",
        ]
        lines += table(head, our_rows(cases, data["ceilings"]))
        names = [name for case in cases for name in case["results"] if name not in OURS]
        names = [name for name in dict.fromkeys(names) if "gpuvec" not in name]
        if names:
            lines += table(["n", *names], peer_rows(cases, names, data["ceilings"]))
        lines += after_a_pause(cases)
        failures = {
            f"{name}, n = {length_text(case['n'])}: {why}"
            for case in cases
            for name, why in case["missing"].items()
        }
        lines += [f"- missing: {failure}" for failure in sorted(failures)] + [""]
    return lines


def sweep(data: dict) -> list[str]:
    """Formats the comparison of placement auto with its alternatives."""
    rows = []
    for case in data["sweep"]:
        mine = us(case, "gpuvec auto")
        other = best(case, ["gpuvec gpu", "calling core"])
        ratio = f"{mine / other[0]:.2f}"
        rows.append(
            [
                *(case["op"], case["kind"], length_text(case["n"])),
                *(
                    spread(case["results"][name]) if name in case["results"] else "–"
                    for name in ("gpuvec auto", "gpuvec gpu", "calling core")
                ),
                ratio if mine <= 1.1 * other[0] else f"**{ratio}**",
            ]
        )
    head = ["op", "memory", "n", "auto", "gpu", "calling core", "auto / better"]
    return ["## Placement auto, f32", "", *table(head, rows)]


def target_lines(data: dict) -> list[str]:
    """Formats the targets."""
    rows = []
    for target in data["targets"]:
        cells = [MARKS[target["reached"]], target["text"]]
        if target["reached"] is None:
            rows.append([*cells, "", "", ""])
            continue
        sign = "≥" if target["at_least"] else "≤"
        limit = f"{sign} {number(target['limit'])} {target['unit']}".strip()
        figure = f"{target['figure']:.3f} {target['unit']}".strip()
        rows.append([*cells, figure, limit, target["of"]])
    return ["## Targets", "", *table(["", "target", "result", "limit", "reference"], rows)]


def head(data: dict) -> list[str]:
    """Formats the machine and the versions."""
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    machine = data["machine"]
    lines = [
        "# gpuvec's benchmark",
        "",
        f"{machine['date']}, {machine['gpu'] or 'no GPU'} ({machine['gpus']} visible), driver "
        f"{machine['driver']}, {machine['cpu']}, {machine['cores']} cores. {versions}.",
        "",
        "Times are medians with quartiles, in batches of back-to-back calls for 2 ms; gpuvec is "
        "called from C except in rows that say ctypes or Python (the Python package's functions, "
        "with `out=`). The calling thread has a current CUDA context, as other GPU libraries leave "
        'it, except in rows that say "no context", as in a program that uses gpuvec alone. The '
        "share of the ceiling follows a peer's time. A ratio above 1 means that gpuvec is faster; "
        "a ratio below 1 is bold.",
        "",
    ]
    return lines + [f"- missing: {name}: {why}" for name, why in data["missing"].items()] + [""]


def ceilings(data: dict) -> list[str]:
    """Formats the ceilings."""
    rows = [
        [
            *(name, seen["what"], f"{number(seen['value'])} {seen['unit']}"),
            f"{number(seen['min'])}–{number(seen['max'])}",
        ]
        for name, seen in data["ceilings"].items()
    ]
    return ["## Ceilings", "", *table(["name", "what", "median", "min–max"], rows)]


def first_calls(data: dict) -> list[str]:
    """Formats the first calls."""
    rows = [
        [what, f"{seen['median_ms']:.1f} ms", f"{seen['min_ms']:.1f}–{seen['max_ms']:.1f}"]
        for what, seen in data["first_call"].items()
    ]
    return ["## First call in a new process", "", *table(["what", "median", "min–max"], rows)]


def cell_text(cell) -> str:
    """Formats a cell of a table that is printed as it is."""
    return number(cell) if isinstance(cell, float) else str(cell)


def other(data: dict, name: str, title: str) -> list[str]:
    """Formats a part whose rows are printed as they are."""
    rows = [[cell_text(cell) for cell in row.values()] for row in data[name]]
    return [f"## {title}", "", *table(list(data[name][0]), rows)]


def summary(data: dict) -> str:
    """Formats the machine, the targets and the ceilings."""
    lines = head(data)
    for part, lines_of in (("targets", target_lines), ("ceilings", ceilings)):
        if data.get(part):
            lines += lines_of(data)
    return "\n".join(lines)


def markdown(data: dict) -> str:
    """Formats the whole report."""
    lines = [summary(data)]
    for part, lines_of in (
        ("points", calls),
        ("sweep", sweep),
        ("first_call", first_calls),
    ):
        if data.get(part):
            lines += lines_of(data)
    for part, title in TABLES.items():
        if data.get(part):
            lines += other(data, part, title)
    return "\n".join(lines)
