"""Times every contender on a case: gpuvec with each placement, and every peer."""

from typing import Callable, Optional

import numpy as np
from cases import TOLERANCE, Arrays, Case
from compiled import Compiled
from device import Device
from gpuvec_calls import MOST_BY_CTYPES, Gpuvec, from_package, placements, ran
from peers import Peer
from timing import measure


class Wrong(Exception):
    """A contender's result is wrong."""


def check(case: Case, once: Callable[[], object]) -> None:
    """Runs the case once and checks the result."""
    case.clear()
    once()
    results, expected = case.results(), case.expected
    if not np.allclose(results, expected, rtol=TOLERANCE, atol=0):
        raise Wrong(f"the result begins {results[:3]} instead of {expected[:3]}")


class Points:
    """The measurements at each length, memory kind, type and operation."""

    def __init__(
        self,
        compiled: Compiled,
        device: Optional[Device],
        peers: list[Peer],
        seconds: float,
        rounds: int,
    ) -> None:
        self.compiled, self.device, self.peers = compiled, device, peers
        self.seconds, self.rounds = seconds, rounds
        self.done: list[dict] = []

    def run(self, ops: list[str], dtype: str, kind: str, lengths: list[int]) -> None:
        """Measures the operations at these lengths, on the same arrays."""
        arrays = Arrays(dtype, kind, max(lengths), self.device, buffers=self.device is not None)
        try:
            for n in lengths:
                for op in ops:
                    self.done.append(self.point(arrays.case(op, n)))
        finally:
            arrays.close()

    def point(self, case: Case) -> dict:
        """Measures one case."""
        contenders, where, missing = [], {}, {}
        for place in placements(case, self.device is not None):
            gpuvec = Gpuvec(case, place)
            check(case, gpuvec.once)
            where[gpuvec.name] = ran()
            contenders.append(gpuvec.from_c(self.compiled))
            if case.n <= MOST_BY_CTYPES:
                contenders.append(gpuvec.from_python())
                contenders.append(gpuvec.without_context(self.compiled))
        by_package = from_package(case)
        check(case, lambda: by_package.batch(1))
        contenders.append(by_package)
        for peer in self.peers:
            if case.kind == "device" and not peer.on_gpu:
                continue
            try:
                contender = peer.contender(case)
                if contender:
                    check(case, lambda: contender.batch(1))  # noqa: B023
                    contenders.append(contender)
            except Exception as error:
                missing[peer.name] = f"{type(error).__name__}: {error}"
        return {
            **{"op": case.op, "dtype": case.dtype, "kind": case.kind, "n": case.n},
            **{"ran": where, "missing": missing},
            "results": measure(contenders, self.seconds, self.rounds),
        }
