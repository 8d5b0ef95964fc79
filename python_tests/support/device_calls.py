"""Makes and checks calls on arrays in host memory; returns where they ran."""

from collections.abc import Iterator

from arrays import assert_same_bits, call, filled, output
from bindings import Backend, Status, last_error, last_run
from operations import OPERATIONS, SAMPLE, Operation, repeated

# The length of arrays that all devices share, and an operation of each kind.
LONG = 5_000_003
PAIR = [OPERATIONS[0], OPERATIONS[2]]


def attempt(operation: Operation, n: int, kind: str = "pinned") -> tuple[int, str]:
    """Calls an operation and checks all that it wrote; returns the status and the error's text."""
    a, b = (filled(kind, values) for values in repeated(operation, n))
    out = output(operation, kind, n)
    status, text = call(operation, a.array, b.array, out.array), last_error()
    if status == Status.OK:
        assert_same_bits(out.array, operation.oracle(*repeated(operation, n)))
    assert a.guards_are_intact() and b.guards_are_intact() and out.guards_are_intact()
    return status, text


def backends(*sizes: int, kind: str = "pinned") -> Iterator[Backend]:
    """Calls the sample of operations, which must succeed; yields each call's backend."""
    for operation in SAMPLE:
        for n in sizes:
            assert attempt(operation, n, kind) == (Status.OK, "")
            yield Backend(last_run().backend)


def devices(kind: str = "pinned", n: int = LONG) -> list[int]:
    """Calls the pair of operations, which must succeed; returns the devices of each call."""
    found = []
    for operation in PAIR:
        status, text = attempt(operation, n, kind)
        assert status == Status.OK, text
        found.append(last_run().devices)
    return found


def check_staging(kind: str) -> None:
    """Fails unless long calls stage each unlocked element once."""
    for operation in PAIR:
        assert attempt(operation, LONG, kind) == (Status.OK, "")
        staged = operation.staged_bytes(LONG).values() if "pageable" in kind else [0]
        assert last_run().bytes_staged == sum(staged)


def check_in_place(kind: str) -> None:
    """Fails unless a long addition into an input is right."""
    a, b = (filled(kind, values) for values in repeated(PAIR[0], LONG))
    assert call(PAIR[0], a.array, b.array, a.array) == 0
    assert_same_bits(a.array, PAIR[0].oracle(*repeated(PAIR[0], LONG)))
    assert a.guards_are_intact() and b.guards_are_intact()
