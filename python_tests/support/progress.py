"""Shows the progress of tools and benchmarks on stderr by tqdm, if it is installed.

Only terminals show it, unless the environment has PROGRESS=1; PROGRESS=0 hides it there, too.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Optional

try:
    from tqdm import tqdm
except ImportError:
    tqdm = None


class Hidden:
    """Has tqdm's methods where tqdm is not installed."""

    total: Optional[float] = None
    write = staticmethod(print)

    def __init__(self, items: Optional[Iterable[Any]]) -> None:
        self.items = items or ()

    def __iter__(self) -> Iterator[Any]:
        """Yields the items."""
        return iter(self.items)

    def __enter__(self) -> "Hidden":
        """Returns itself."""
        return self

    def update(self, *_: object) -> None:
        """Does nothing."""

    __exit__ = set_description = close = update


def progress(
    items: Optional[Iterable[Any]] = None,
    what: str = "",
    total: Optional[float] = None,
    unit: str = "",
) -> Any:
    """Returns the items, whose progress is shown while a loop iterates over them.

    Without items, the caller counts by `update(n)` and ends by `close()` or a with statement.
    """
    is_terminal = sys.stderr.isatty()
    asked = os.environ.get("PROGRESS") or str(int(is_terminal))
    if tqdm is None:
        return Hidden(items)
    return tqdm(
        items,
        desc=what,
        total=total,
        unit=f" {unit}" if unit else "it",
        leave=False,
        # In a file, each update is a line.
        mininterval=0.2 if is_terminal else 10,
        disable=asked == "0",
    )
