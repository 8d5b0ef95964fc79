"""gpuvec's performance targets, as data, and the rules that check a run against them."""

from typing import Callable, NamedTuple, Optional

import bounds

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


class Target(NamedTuple):
    """A row of the list: its text, and the rule that evaluates a run's data."""

    text: str
    rule: Callable[[dict], Optional[Seen]]


def point(data: dict, op: str, dtype: str, kind: str, n: int) -> Optional[dict]:
    """Returns the case, if it was measured."""
    key = {"op": op, "dtype": dtype, "kind": kind, "n": n}
    return next((p for p in data.get("points", []) if key.items() <= p.items()), None)


def us(case: Optional[dict], name: str) -> Optional[float]:
    """Returns a contender's median, if it was measured."""
    result = case and case["results"].get(name)
    return result["median_us"] if result else None


def best(case: dict, names: list[str]) -> Optional[tuple[float, str]]:
    """Returns the time and the name of the fastest of some contenders."""
    times = [(us(case, name), name) for name in names if us(case, name) is not None]
    return min(times, default=None)


def share(case: tuple, name: str, least: float, time: Callable) -> Callable:
    """Requires at least this share of a ceiling; `time` gives the microseconds at the ceiling."""

    def rule(data: dict) -> Optional[Seen]:
        found = point(data, *case)
        mine, at_ceiling = us(found, name), found and time(found, data["ceilings"])
        if mine is None or not at_ceiling:
            return None
        return Seen(at_ceiling.us / mine, least, True, "", at_ceiling.why)

    return rule


def both_ways(case: dict, ceilings: dict) -> Optional[bounds.Bound]:
    """Bounds the inputs' transfer by the rate while as many bytes cross the other way."""
    rate = bounds.value(ceilings, "both_ways")
    size = 2 * case["n"] * bounds.size_of(case["dtype"])
    return rate and bounds.Bound(size / rate / 1e3, "both_ways")


def times_faster(case: tuple, name: str, peers: list[str], least: float) -> Callable:
    """Requires at least `least` times the speed of the fastest peer."""

    def rule(data: dict) -> Optional[Seen]:
        found = point(data, *case)
        mine, other = us(found, name), found and best(found, peers)
        if mine is None or not other:
            return None
        return Seen(other[0] / mine, least, True, "×", other[1])

    return rule


def within(case: tuple, name: str, extra: float, other: Callable) -> Callable:
    """Allows at most `extra` microseconds more than `other` takes."""

    def rule(data: dict) -> Optional[Seen]:
        found = point(data, *case)
        mine, theirs = us(found, name), other(found, data)
        if mine is None or theirs is None:
            return None
        return Seen(mine - theirs, extra, False, MICROSECONDS, f"{mine:.2f} and {theirs:.2f} µs")

    return rule


def worst(data: dict, rules: list[Callable]) -> Optional[Seen]:
    """Returns the worst result of several rules."""
    seen = [one for one in (rule(data) for rule in rules) if one is not None]
    return min(seen, key=lambda one: one.figure / one.limit) if seen else None


def cpu_at(wanted: Callable[[int], bool], peers: list[str], least: float) -> Callable:
    """Compares placement cpu with peers on pageable arrays of every wanted length."""

    def rule(data: dict) -> Optional[Seen]:
        rules = []
        for found in data.get("points", []):
            key = tuple(found[part] for part in ("op", "dtype", "kind", "n"))
            if found["kind"] == "pageable" and wanted(found["n"]):
                rules.append(named(key, times_faster(key, "gpuvec cpu", peers, least)))
        return worst(data, rules)

    return rule


def named(key: tuple, rule: Callable) -> Callable:
    """Adds the case's name to a rule's result."""

    def with_name(data: dict) -> Optional[Seen]:
        seen = rule(data)
        op, dtype, _, n = key
        return seen and seen._replace(of=f"{seen.of} at {op} {dtype} n = {n:,}")

    return with_name


def sweep(data: dict) -> Optional[Seen]:
    """Finds the worst ratio of placement auto to the better of gpu and the calling core."""
    ratios = []
    for found in data.get("sweep", []):
        mine = us(found, "gpuvec auto")
        other = best(found, ["gpuvec gpu", "calling core"])
        if mine is not None and us(found, "gpuvec gpu") is not None and other:
            case = f"{found['op']} {found['kind']} n = {found['n']:,}"
            ratios.append((mine / other[0], f"{other[1]} at {case}"))
    return Seen(max(ratios)[0], 1.10, False, "×", max(ratios)[1]) if ratios else None


def first_call(what: str) -> Callable:
    """Compares the first call with the driver alone, with an empty cache."""

    def rule(data: dict) -> Optional[Seen]:
        seen = data.get("first_call", {})
        mine, bare = seen.get(f"{what}, empty cache"), seen.get("bare, empty cache")
        if not mine or not bare:
            return None
        figures = f"{mine['median_ms']:.0f} and {bare['median_ms']:.0f} ms"
        return Seen(mine["median_ms"] / bare["median_ms"], 1.25, False, "×", figures)

    return rule


def launch(_: Optional[dict], data: dict) -> Optional[float]:
    """Returns the time of an empty launch and its synchronization."""
    return bounds.value(data["ceilings"], "launch_synchronize")


def plain_loop(case: Optional[dict], _: dict) -> Optional[float]:
    """Returns the plain C loop's time."""
    return us(case, "plain C loop")


def host_targets() -> list[Target]:
    """Lists the targets for host arrays."""
    add, dot = ("add", "f32", "pinned", LARGE), ("dot", "f32", "pinned", LARGE)
    targets = [
        Target(
            "pinned add f32 1e8: share of the both-ways transfers",
            share(add, "gpuvec auto", 0.93, both_ways),
        ),
        Target(
            "pinned add f32 1e8: against the fastest GPU peer",
            times_faster(add, "gpuvec auto", GPU_PEERS, 1.35),
        ),
        Target(
            "pinned dot f32 1e8: share of host to device",
            share(dot, "gpuvec auto", 0.97, bounds.transfers),
        ),
    ]
    for op, times in (("add", 1.8), ("dot", 2.0)):
        case = (op, "f32", "pageable", LARGE)
        text = f"pageable {op} f32 1e8, placement gpu: against"
        targets += [
            Target(
                f"{text} the fastest GPU peer", times_faster(case, "gpuvec gpu", GPU_PEERS, times)
            ),
            Target(f"{text} NumPy", times_faster(case, "gpuvec gpu", ["NumPy"], 1.0)),
        ]
        for length in ("1e6", "1e7"):
            case = (op, "f32", "pageable", int(float(length)))
            targets.append(
                Target(
                    f"pageable {op} f32 {length}, placement gpu: against the fastest GPU peer",
                    times_faster(case, "gpuvec gpu", GPU_PEERS, 1.0),
                )
            )
    return targets


def device_targets() -> list[Target]:
    """Lists the targets for device arrays."""
    targets = []
    for dtype in ("f32", "f64"):
        add, dot = ((op, dtype, "device", LARGEST) for op in ("add", "dot"))
        text = f"{dtype} 2^28:"
        targets += [
            Target(
                f"device add {text} share of the device copy",
                share(add, "gpuvec auto", 0.97, bounds.device_memory),
            ),
            Target(
                f"device dot {text} share of a plain fma loop",
                share(dot, "gpuvec auto", 0.95, bounds.device_memory),
            ),
            Target(
                f"device dot {text} against CuPy",
                times_faster(dot, "gpuvec auto", ["CuPy"], 3.0),
            ),
        ]
    return targets


def small_targets() -> list[Target]:
    """Lists the targets for small arrays, the cores, placement auto and the first call."""
    targets = []
    for op in ("add", "dot"):
        targets += [
            Target(
                f"pinned {op} f32 1e3, placement gpu: more than an empty launch and synchronize",
                within((op, "f32", "pinned", 1000), "gpuvec gpu", 3.0, launch),
            ),
            *(
                Target(
                    f"{kind} {op} f32 1e3, placement auto{where}: more than a plain C loop",
                    within((op, "f32", kind, 1000), f"gpuvec auto{where}", 0.5, plain_loop),
                )
                for kind in ("pageable", "pinned")
                for where in (", no context", "")
            ),
        ]
    return [
        *targets,
        Target(
            "placement auto: against the better of gpu and the calling core, worst case",
            sweep,
        ),
        Target(
            "placement cpu, n from 1e5: against the fastest CPU peer, worst case",
            cpu_at(lambda n: n >= 100_000, CPU_PEERS, 0.9),
        ),
        Target(
            "placement cpu, n below 1e5: against NumPy, worst case",
            cpu_at(lambda n: n < 100_000, ["NumPy"], 1.0),
        ),
        Target("first call (init), empty cache: against the driver alone", first_call("init")),
        Target("first call (add), empty cache: against the driver alone", first_call("add")),
    ]


TARGETS = [*host_targets(), *device_targets(), *small_targets()]


def judged(data: dict) -> list[dict]:
    """Evaluates each target; `reached` is None if it was not measured."""
    lines = []
    for target in TARGETS:
        seen = target.rule(data)
        line = {"text": target.text, "reached": seen.reached if seen else None}
        lines.append({**line, **(seen._asdict() if seen else {})})
    return lines
