"""The library's results for the corpus of exact sums.

    python3 python_tests/support/corpus_calls.py

prints their hashes for each placement and each kind of memory, to compare with corpus.sha256.
"""

from collections.abc import Sequence
from typing import Optional

import numpy as np
from bindings import Place, last_error, lib, placed
from corpus import KINDS, Corpus, committed, corpus, digest
from exact_sums import by_exponents
from oracles import unsigned
from streams import Resources, ok

# Kinds of memory of a, b and the results.
MEMORY = [
    *[(kind,) * 3 for kind in ("pageable", "pinned", "registered", "managed", "device")],
    ("pageable", "device", "pinned"),
    ("device", "foreign pinned", "pageable"),
    ("managed", "pageable", "device"),
    ("other device", "device", "managed"),
]


def results(
    corpus: Corpus, kinds: Sequence[str] = ("pageable",) * 3, streams: int = 0
) -> np.ndarray:
    """Computes all cases from arrays of these kinds, on this number of streams in turn."""
    with Resources() as resources:
        arrays = [corpus.a] if corpus.b is None else [corpus.a, corpus.b]
        memory = [resources.array(kind, values) for kind, values in zip(kinds, arrays)]
        out = resources.array(kinds[2], np.full(len(corpus), -1, corpus.kind.dtype))
        queues = [resources.stream() for _ in range(streams)] or [None]
        call(corpus, [array.address for array in memory], out.address, queues)
        for queue in queues:
            ok(lib.gpuvec_stream_synchronize(queue))
        return out.get(corpus.kind.dtype)


def call(corpus: Corpus, inputs: list[int], out: int, queues: list[Optional[int]]) -> None:
    """Calls the function for each case."""
    function, size = getattr(lib, f"gpuvec_{corpus.kind}"), corpus.a.itemsize
    bounds = corpus.bounds.tolist()
    for number, (start, end) in enumerate(zip(bounds, bounds[1:])):
        addresses = [array + start * size for array in inputs]
        queue = queues[number % len(queues)]
        status = function(*addresses, out + number * size, end - start, queue)
        assert status == 0, f"{corpus.text(number)}: {last_error()}"


def check(corpus: Corpus, found: np.ndarray) -> None:
    """Fails unless the results have the committed hash; names a wrong one."""
    if digest(found) == committed()[corpus.kind.name]:
        return
    bits = unsigned(corpus.kind.dtype)
    for number, result in enumerate(found):
        expected = by_exponents(*corpus.case(number))
        if expected.view(bits)[0] != result.view(bits):
            raise AssertionError(f"{corpus.text(number)}: {result!r}, not {expected[0]!r}")
    raise AssertionError("the results are right: the corpus is not the one that was hashed")


def check_all(folder: str, kinds: Sequence[str] = ("pageable",) * 3, streams: int = 0) -> None:
    """Checks all kinds of sums, from the corpora stored in a folder."""
    for kind in KINDS:
        corpus = Corpus.load(folder, kind)
        check(corpus, results(corpus, kinds, streams))


def main() -> None:
    """Prints a line for each kind of sum, placement and combination of memory kinds."""
    places = [place for place in Place if place != Place.GPU or lib.gpuvec_device_count()]
    for kind in KINDS:
        print(f"{committed()[kind.name]}  {kind}: committed")
        for place in places:
            with placed(place):
                for kinds in MEMORY:
                    hashed = digest(results(corpus(kind), kinds))
                    print(f"{hashed}  {kind}: {place.name.lower()}, {', '.join(kinds)}")


if __name__ == "__main__":
    main()
