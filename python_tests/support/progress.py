"""Shows the progress of tools and benchmarks: by tqdm where it is installed, else in plain text.

Writes to stderr, and only if it is a terminal, or if the environment has PROGRESS=1; PROGRESS=0
shows nothing anywhere.
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, Optional

# The shortest time between two texts, on a terminal and in a file, in seconds.
ON_TERMINAL, IN_FILE = 0.2, 10.0


class Plain:
    """The part of tqdm's interface that the tools use."""

    def __init__(
        self,
        iterable: Optional[Iterable[Any]] = None,
        *,
        desc: str = "",
        total: Optional[float] = None,
        unit: str = "",
        mininterval: float = ON_TERMINAL,
        disable: bool = False,
    ) -> None:
        self.iterable, self.desc, self.unit = iterable, desc, unit
        self.total = len(iterable) if total is None and hasattr(iterable, "__len__") else total
        self.interval, self.disable = mininterval, disable
        self.n: float = 0
        self.start = time.monotonic()
        # The first text is late enough for a short loop to show nothing.
        self.shown_at, self.width = self.start, 0

    def __enter__(self) -> "Plain":
        """Begins."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the progress."""
        self.close()

    def __iter__(self) -> Iterator[Any]:
        """Yields the items, and counts them."""
        with self:
            for item in self.iterable or ():
                yield item
                self.update()

    def text(self) -> str:
        """Returns what is done, of how much, and the time that it took."""
        of = "" if self.total is None else f" of {self.total:,.0f}"
        unit = f" {self.unit.strip()}" if self.unit else ""
        return f"{self.desc}: {self.n:,.0f}{of}{unit}, {time.monotonic() - self.start:.0f} s"

    def update(self, n: float = 1) -> None:
        """Counts `n` more, and shows that unless a text was shown a moment ago."""
        self.n += n
        if not self.disable and time.monotonic() >= self.shown_at + self.interval:
            self.refresh()

    def set_description(self, desc: str) -> None:
        """Names what is being done now."""
        self.desc = desc
        self.update(0)

    def refresh(self) -> None:
        """Shows the progress: over the last text on a terminal, in a new line of a file."""
        if self.disable:
            return
        self.shown_at = time.monotonic()
        text = self.text()
        if sys.stderr.isatty():
            print(f"\r{text:{self.width}}", end="", file=sys.stderr, flush=True)
            self.width = len(text)
        else:
            print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Removes the text from a terminal."""
        if self.width:
            print(f"\r{' ' * self.width}\r", end="", file=sys.stderr, flush=True)
        self.width = 0

    def write(self, text: str) -> None:
        """Prints a line of the tool's own output."""
        self.clear()
        print(text, flush=True)

    def close(self) -> None:
        """Ends the progress."""
        self.clear()
        self.disable = True


def is_wanted() -> bool:
    """Says whether progress is shown: by the environment or, without a word there, on terminals."""
    asked = os.environ.get("PROGRESS", "")
    return asked != "0" if asked else sys.stderr.isatty()


def progress(
    items: Optional[Iterable[Any]] = None,
    what: str = "",
    total: Optional[float] = None,
    unit: str = "",
) -> Any:
    """Returns the items, whose progress is shown while they are iterated over.

    Without items, the caller counts by `update(n)` and ends by `close()` or a with statement.
    """
    options: dict[str, Any] = {"desc": what, "total": total, "disable": not is_wanted()}
    options["mininterval"] = ON_TERMINAL if sys.stderr.isatty() else IN_FILE
    try:
        from tqdm import tqdm
    except ImportError:
        return Plain(items, unit=unit, **options)
    return tqdm(items, unit=f" {unit}" if unit else "it", leave=False, **options)
