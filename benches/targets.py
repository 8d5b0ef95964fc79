"""gpuvec's performance targets, as data, and the rules that check a run against them."""

from collections.abc import Callable
from typing import Any, NamedTuple, Optional

from ceilings import Bound, bound, value
from harness import Row, best, us

Data = dict[str, Any]

GPU_PEERS = ["CuPy", "PyTorch CUDA", "Numba", "naive C"]
CPU_PEERS = ["PyTorch CPU", "numexpr", "NumPy"]
LARGE, LARGEST = 100_000_000, 1 << 28
MICROSECONDS = "µs"


class Seen(NamedTuple):
    """A run's result for one target: the figure, the limit, and the reference."""

    figure: float
    limit: float
    at_least: bool
    unit: str
    of: str

    @property
    def reached(self) -> bool:
        """True if the figure is within the limit."""
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit


def case(data: Data, call: str, dtype: str, kind: str, n: int) -> Row:
    """Returns the row of a case, without times if it was not measured."""
    key = {"call": call, "dtype": dtype, "kind": kind, "n": n}
    rows = data.get("calls", [])
    return next((row for row in rows if key.items() <= row.items()), {"us": {}})


def share(data: Data, key: tuple, name: str, least: float, bounded: Callable) -> Optional[Seen]:
    """Requires at least this share of a ceiling, whose time `bounded` returns."""
    found = case(data, *key)
    mine = us(found, name)
    ceiling = mine and bounded(found, data.get("ceilings", []))
    return Seen(ceiling.us / mine, least, True, "", ceiling.why) if ceiling else None


def by_the_bound(row: Row, ceilings: list[Row]) -> Optional[Bound]:
    """Bounds a case on the GPU."""
    return bound(row, True, ceilings)


def both_ways(row: Row, ceilings: list[Row]) -> Optional[Bound]:
    """Bounds the inputs' transfer by the rate while as many bytes cross the other way."""
    rate = value(ceilings, "both_ways")
    return Bound(2 * row["n"] * 4 / rate / 1e3, "both_ways") if rate else None


def times_faster(
    data: Data, key: tuple, name: str, peers: list[str], least: float
) -> Optional[Seen]:
    """Requires at least `least` times the speed of the fastest peer."""
    found = case(data, *key)
    mine, other = us(found, name), best(found, peers)
    return Seen(other[0] / mine, least, True, "×", other[1]) if mine and other else None


def within(data: Data, key: tuple, name: str, extra: float, other: Callable) -> Optional[Seen]:
    """Allows at most `extra` microseconds more than `other` takes."""
    found = case(data, *key)
    mine, theirs = us(found, name), other(found, data)
    if mine is None or theirs is None:
        return None
    return Seen(mine - theirs, extra, False, MICROSECONDS, f"{mine:.2f} and {theirs:.2f} µs")


def cpu_at(data: Data, wanted: Callable, peers: list[str], least: float) -> Optional[Seen]:
    """Compares placement cpu with peers on pageable arrays of every wanted length."""
    found = []
    for row in data.get("calls", []):
        if row["kind"] == "pageable" and wanted(row["n"]):
            key = tuple(row[part] for part in ("call", "dtype", "kind", "n"))
            seen = times_faster(data, key, "gpuvec cpu", peers, least)
            where = f"{key[0]} {key[1]} n = {key[3]:,}"
            found += [seen._replace(of=f"{seen.of} at {where}")] if seen else []
    return min(found, key=lambda seen: seen.figure / seen.limit, default=None)


def sweep(data: Data) -> Optional[Seen]:
    """Finds the worst ratio of placement auto to the best of the other placements and one core."""
    ratios = []
    for row in data.get("sweep", []):
        mine = us(row, "gpuvec auto")
        other = best(row, [name for name in row["us"] if name not in ("gpuvec auto", "again")])
        if mine is not None and us(row, "gpuvec gpu") is not None and other:
            where = f"{row['call']} {row['dtype']} {row['kind']} n = {row['n']:,}"
            ratios.append((mine / other[0], f"{other[1]} at {where}"))
    return Seen(max(ratios)[0], 1.10, False, "×", max(ratios)[1]) if ratios else None


def first_call(data: Data, what: str) -> Optional[Seen]:
    """Compares the first call with the driver alone, with an empty cache."""
    rows = {row["what"]: row for row in data.get("first", [])}
    mine, bare = (us(rows.get(name), "empty cache") for name in (what, "bare"))
    if not mine or not bare:
        return None
    return Seen(mine / bare, 1.25, False, "×", f"{mine / 1e3:.0f} and {bare / 1e3:.0f} ms")


def launch(_: Row, data: Data) -> Optional[float]:
    """Returns the time of an empty launch and its synchronization."""
    return value(data.get("ceilings", []), "launch_synchronize")


def plain_loop(row: Row, _: Data) -> Optional[float]:
    """Returns the plain C loop's time."""
    return us(row, "plain C loop")


PINNED_ADD, PINNED_DOT = ((call, "f32", "pinned", LARGE) for call in ("add", "dot"))
AUTO = "gpuvec auto"
# Each target's rule and the arguments of the rule.
TARGETS: dict[str, tuple[Any, ...]] = {
    "pinned add f32 1e8: share of the both-ways transfers": (
        *(share, PINNED_ADD, AUTO, 0.93, both_ways),
    ),
    "pinned add f32 1e8: against the fastest GPU peer": (
        *(times_faster, PINNED_ADD, AUTO, GPU_PEERS, 1.35),
    ),
    "pinned dot f32 1e8: share of host to device": (share, PINNED_DOT, AUTO, 0.97, by_the_bound),
    **{
        f"pageable {call} f32 {n:.0e}, placement gpu: against {whom}": (
            *(times_faster, (call, "f32", "pageable", n), "gpuvec gpu", peers, least),
        )
        for call, most in (("add", 1.8), ("dot", 2.0))
        for n, whom, peers, least in (
            (LARGE, "the fastest GPU peer", GPU_PEERS, most),
            (LARGE, "NumPy", ["NumPy"], 1.0),
            (1_000_000, "the fastest GPU peer", GPU_PEERS, 1.0),
            (10_000_000, "the fastest GPU peer", GPU_PEERS, 1.0),
        )
    },
    **{
        f"device {call} {dtype} 2^28: {what}": (rule, (call, dtype, "device", LARGEST), *limits)
        for dtype in ("f32", "f64")
        for call, what, rule, *limits in (
            ("add", "share of the device copy", share, AUTO, 0.97, by_the_bound),
            ("dot", "share of a plain fma loop", share, AUTO, 0.95, by_the_bound),
            ("dot", "against CuPy", times_faster, AUTO, ["CuPy"], 3.0),
        )
    },
    **{
        f"{kind} {call} f32 1e3, placement {name}: more than {than}": (
            *(within, (call, "f32", kind, 1000), f"gpuvec {name}", extra, other),
        )
        for call in ("add", "dot")
        for kind, name, extra, other, than in (
            ("pinned", "gpu", 3.0, launch, "an empty launch and synchronize"),
            *(
                (kind, name, 0.5, plain_loop, "a plain C loop")
                for kind in ("pageable", "pinned")
                for name in ("auto, no context", "auto")
            ),
        )
    },
    "placement auto: against the best of the others and one core, worst case": (sweep,),
    "placement cpu, n from 1e5: against the fastest CPU peer, worst case": (
        *(cpu_at, lambda n: n >= 100_000, CPU_PEERS, 0.9),
    ),
    "placement cpu, n below 1e5: against NumPy, worst case": (
        *(cpu_at, lambda n: n < 100_000, ["NumPy"], 1.0),
    ),
    "first call (init), empty cache: against the driver alone": (first_call, "init"),
    "first call (add), empty cache: against the driver alone": (first_call, "add"),
}


def judged(data: Data) -> list[Row]:
    """Evaluates each target; `reached` is None if it was not measured."""
    lines = []
    for text, (rule, *limits) in TARGETS.items():
        seen = rule(data, *limits)
        line = {"text": text.replace("e+0", "e"), "reached": seen.reached if seen else None}
        lines.append({**line, **(seen._asdict() if seen else {})})
    return lines
