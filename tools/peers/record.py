"""Records whether a test has used gpuvec, and which of its requests were refused."""

from collections.abc import Iterator
from contextlib import contextmanager

# Not empty if the running test has used gpuvec; and the refusals that it met.
has_run: list[bool] = []
refusals: list[Exception] = []


@contextmanager
def noted() -> Iterator[None]:
    """Marks errors as refusals."""
    has_run[:] = [True]
    try:
        yield
    except Exception as error:
        error.is_refusal = True
        refusals.append(error)
        raise
