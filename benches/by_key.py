"""Sums by key, as shares of a copy's rate, beside other libraries.

The bytes of a call are those of its elements and keys. Other libraries add floats in any order, on
GPUs by atomics, so their results differ from run to run.
"""

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import numpy as np
from cases import DTYPES, TYPE_NUMBERS, address
from harness import Call, Contender, Row, batch_of
from nd import Place, measured, with_shares

GROUPS = (2, 16, 100, 1000, 5000, 10_000, 65_536, 1 << 20)
# Each key as often as another; few keys often; keys in order.
ORDERS = ("uniform", "skewed", "sorted")


def run(given: Namespace) -> Iterator[Row]:
    """Measures sums by key in each kind of memory; checks their results."""
    for place in (Place(given, kind) for kind in given.kinds):
        yield {"missing": place.missing}
        for dtype in given.types:
            yield from with_shares(sums(place, dtype))


def sums(place: Place, dtype: str) -> Iterator[Row]:
    """Measures sums of a type."""
    n = max(place.given.n)
    yield place.copy(n)
    for groups in (count for count in GROUPS if count <= n):
        for order in ORDERS:
            call = SumByKey(place, dtype, n, groups, order)
            call.check()
            what = f"{dtype}, {groups} {order} keys"
            moved = call.x.nbytes + call.keys.nbytes
            yield measured(place.given, what, [*call.ours(), *call.theirs()], moved)
            place.free()


class SumByKey:
    """The sum of the elements of each key, whose type is i32."""

    def __init__(self, place: Place, dtype: str, n: int, groups: int, order: str) -> None:
        rng = np.random.default_rng(1)
        self.place, self.groups = place, groups
        self.x = np.resize(rng.normal(0, 1, (1 << 20) + 7).astype(DTYPES[dtype]), n)
        share = np.resize(rng.random((1 << 22) + 7), n)
        if order == "skewed":
            share **= 4
        elif order == "sorted":
            share = np.arange(n) / n
        self.keys = (share * groups).astype(np.int32)
        self.types = [TYPE_NUMBERS[dtype], TYPE_NUMBERS["i32"]]
        self.arrays = [place.array(self.x), place.array(self.keys)]
        self.out = place.array(np.full(groups, 7, self.x.dtype))

    def ours(self) -> Iterator[Contender]:
        """Returns gpuvec's calls."""
        arrays = [*map(address, self.arrays), address(self.out)]
        for library in self.place.libraries:
            call = library.by_key_call("sum(x)", self.types, self.x.size, self.groups, arrays)
            yield Contender(f"gpuvec{library.suffix}", batch_of(call))

    def theirs(self) -> Iterator[Contender]:
        """Returns the calls of the libraries."""
        for peer in self.place.peers:
            arrays = [peer.array(array) for array in (*self.arrays, self.out)]
            wait = peer.wait if peer.on_gpu else lambda: None
            for name, call in calls_of(peer.name, peer.library, *arrays):
                yield Contender(f"{peer.name} {name}", batch_of(call, wait))

    def check(self) -> None:
        """Fails unless the results are those of cores."""
        wanted = np.full(self.groups, 7, self.x.dtype)
        library = self.place.libraries[0]
        arrays = [array.ctypes.data for array in (self.x, self.keys, wanted)]
        library.set_placement("cpu")
        library.by_key_call("sum(x)", self.types, self.x.size, self.groups, arrays)()
        library.set_placement("gpu" if self.place.is_device else "cpu")
        for contender in self.ours():
            contender.batch(1)
            found = self.place.values(self.out)
            assert found.tobytes() == wanted.tobytes(), f"{contender.name}: other results"


def calls_of(peer: str, library: Any, x: Any, keys: Any, out: Any) -> Iterator[tuple[str, Call]]:
    """Returns a library's sums by key, by name."""
    groups = len(out)
    yield "bincount", lambda: library.bincount(keys, x, groups)
    if "PyTorch" in peer:
        indexes = keys.long()
        yield "index_add_", lambda: out.zero_().index_add_(0, indexes, x)
