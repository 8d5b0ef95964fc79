"""Measures cases: every call, type, memory kind and length, by all contenders and placements."""

import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import closing
from statistics import median
from typing import Optional

import numpy as np
from calls import Callers, Library, library_path
from cases import KINDS, Arrays, Case, Data, by_memory, cases_of, fitting
from device import device_if_any, why_no_gpu
from harness import Contender, Row, is_peer, measure
from peers import OnGpu, Unsupported, installed
from progress import progress

# The relative and absolute difference of results: each library rounds in its own way.
TOLERANCES = {"f32": (1e-3, 1e-5), "f64": (1e-9, 1e-12)}
# A peer that takes longer than this for a call is left out at greater lengths.
TOO_LONG_US = 250_000
# Placement auto is measured after this number of calls of the case, or after this time.
CALLS_BEFORE, SECONDS_BEFORE = 30, 0.5


class Wrong(Exception):
    """A contender's result is wrong."""


def warmed_up(contender: Contender) -> list[float]:
    """Makes calls of placement auto before it is measured; returns their times."""
    seconds: list[float] = []
    while len(seconds) < CALLS_BEFORE and sum(seconds) < SECONDS_BEFORE:
        seconds.append(contender.batch(1))
    return seconds


def chosen_cases(given: Namespace) -> tuple[list[Case], dict[str, str]]:
    """Returns the cases that this machine can measure, and why others are missing."""
    kinds, missing = list(given.kinds), {}
    if why_no_gpu():
        kinds = [kind for kind in kinds if kind == KINDS[0]]
        missing = {"GPU": why_no_gpu()}
    wanted = cases_of(given.calls, given.types, kinds, given.n)
    on_device = {"device"} & set(kinds)
    wanted += cases_of(given.calls, given.types, on_device, given.device_n)
    needs_device = set(kinds) - {KINDS[0]}
    cases = fitting(wanted, device_if_any() if needs_device else None)
    if len(cases) < len(wanted):
        missing["memory"] = f"{len(wanted) - len(cases)} cases whose arrays exceed it"
    return cases, missing


class Grid:
    """Measures cases with the contenders and placements of the command line."""

    def __init__(self, given: Namespace, cases: list[Case]) -> None:
        self.given, self.cases = given, cases
        self.library = Library(library_path())
        has_gpu = not why_no_gpu()
        placements = [one for one in given.placements if one != "gpu" or has_gpu]
        most = max((case.n for case in cases), default=1)
        self.callers = Callers(list(given.callers), placements, given.against, most)
        self.close = self.callers.close
        self.peers, self.missing = installed(list(given.peers))
        uses_device = any(case.kind != KINDS[0] for case in cases)
        uses_device = uses_device or any(peer.on_gpu for peer in self.peers)
        self.device = device_if_any() if uses_device else None
        self.slow: set[tuple[str, str, str, str]] = set()
        # The seconds of the case's calls under placement auto, before other placements were tried.
        self.before: list[float] = []

    def rows(self) -> Iterator[Row]:
        """Measures the cases until the time is up; slow peers are known by the shorter ones."""
        end = self.given.start + self.given.at_most
        groups = by_memory(self.cases)
        if self.peers:
            groups = [sorted(group, key=lambda case: case.n) for group in groups]
        with progress(total=len(self.cases), what=self.given.suite) as shown:
            for group in groups:
                dtype, kind = group[0].dtype, group[0].kind
                longest = max(case.n for case in group)
                with closing(Arrays(dtype, kind, longest, self.device)) as arrays:
                    for done, case in enumerate(group):
                        if time.monotonic() > end:
                            left = f"{len(group) - done} cases: the time is up"
                            yield {"missing": {f"{dtype} {kind}": left}}
                            break
                        yield self.row(Data(case, arrays))
                        shown.update()

    def contenders(self, data: Data, failures: dict[str, str]) -> Iterator[Contender]:
        """Makes the contenders of a case, gpuvec first."""
        yield from self.callers.of(data)
        for peer in self.peers:
            if (peer.name, *data.case[:3]) in self.slow:
                continue
            is_queued = "queued" in self.given.callers and isinstance(peer, OnGpu)
            try:
                yield peer.queued(data) if is_queued else peer.contender(data)
            except Unsupported:
                continue
            except Exception as error:
                failures[peer.name] = f"{type(error).__name__}: {error}"

    def row(self, data: Data) -> Row:
        """Measures a case, once all results agree."""
        failures: dict[str, str] = {}
        self.before = []
        checked = list(self.checked(data, self.contenders(data, failures), failures))
        return {**self.measured(data, checked), "missing": failures}

    def checked(
        self, data: Data, contenders: Iterable[Contender], failures: dict[str, str]
    ) -> Iterator[Contender]:
        """Leaves out contenders whose call fails, or whose result differs from the first one's.

        The results of gpuvec have the same bits, whatever the placement and the build.
        """
        wanted: Optional[np.ndarray] = None
        for contender in contenders:
            data.clear()
            data.is_compared = True
            try:
                contender.batch(1)
                data.is_compared = False
                if not contender.is_elsewhere:
                    results = data.results()
                    wanted = results if wanted is None else wanted
                    self.compare(contender.name, data.case, results, wanted)
                is_auto = "auto" in self.given.placements
                if is_auto and contender.name in ("gpuvec", "gpuvec auto"):
                    self.before = warmed_up(contender)
                yield contender
            except Exception as error:
                failures[contender.name] = f"{type(error).__name__}: {error}"
                print(f"failed: {data.case}: {contender.name}: {error}", file=sys.stderr)

    def compare(self, name: str, case: Case, results: np.ndarray, wanted: np.ndarray) -> None:
        """Fails unless results agree with the wanted ones."""
        relative, absolute = TOLERANCES[case.dtype]
        is_close = is_peer(name) and np.allclose(results, wanted, rtol=relative, atol=absolute)
        if not is_close and results.tobytes() != wanted.tobytes():
            raise Wrong(f"the result ends {results[-3:]} instead of {wanted[-3:]}")

    def measured(self, data: Data, contenders: list[Contender]) -> Row:
        """Measures the contenders of a case."""
        row: Row = {**data.case._asdict(), "ran": {}, "calls_before": len(self.before)}
        if self.before:
            row["alone_us"] = 1e6 * median(self.before[len(self.before) // 2 :])
        row |= measure(contenders, self.given.seconds * len(contenders), self.given.rounds)
        for contender in contenders:
            name = contender.name
            if name.startswith("gpuvec") and "," not in name and not contender.is_elsewhere:
                contender.batch(1)
                row["ran"][name] = self.library.last_run().where()
        late = [name for name, us in row["us"].items() if us > TOO_LONG_US and is_peer(name)]
        self.slow |= {(name, *data.case[:3]) for name in late}
        return row


def run(given: Namespace) -> Iterator[Row]:
    """Measures the cases of a suite."""
    cases, missing = chosen_cases(given)
    with closing(Grid(given, cases)) as grid:
        versions = {peer.name: peer.version for peer in grid.peers}
        yield {"versions": versions, "missing": {**missing, **grid.missing}}
        yield from grid.rows()
