"""Where and how the last operation ran."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from ._errors import check
from ._library import RunStructure, functions

Backend = Literal["none", "cpu", "gpu"]
Choice = Literal[
    "none",
    "calling core",
    "quarter of cores",
    "half of cores",
    "cores",
    "gpu",
    "gpus",
    "cores and gpus",
]
Reason = Literal[
    "none", "fastest", "explored", "no driver yet", "compiling", "asked for", "fallback"
]

BACKENDS: tuple[Backend, ...] = get_args(Backend)
CHOICES: tuple[Choice, ...] = get_args(Choice)
REASONS: tuple[Reason, ...] = get_args(Reason)
PATHS = ("calling core", "cores", "staged", "dma", "mapped", "resident")


class Run(NamedTuple):
    """Where and how an operation ran."""

    backend: Backend
    """The kind of processor; "none" if there was nothing to do or the call failed."""
    path: tuple[str, ...]
    """The cores and transfers that took part: "calling core", "cores", "staged", "dma", "mapped",
    "resident"."""
    devices: tuple[int, ...]
    """The GPUs that took part."""
    threads: int
    """The number of host threads that could take part."""
    chunks: int
    """The number of chunks that the work was split into."""
    bytes_staged: int
    """The number of bytes copied through gpuvec's own pinned buffers."""
    choice: Choice
    """The choice of processors; "none" also for work that was queued on a stream."""
    reason: Reason
    """The reason for the choice: "fastest" (predicted to finish first), "explored" (tried, to
    learn how long it takes), "no driver yet" and "compiling" (a GPU might be faster, but opening
    the driver, or waiting for its compiler, has not paid off so far), "asked for" (the placement or
    the arrays' memory leaves no choice), "fallback" (a GPU failed, and cores did the work)."""
    time: float | None
    """The milliseconds that the call took; None if it was not measured: short calls are not, unless
    the environment variable GPUVEC_LOG is set."""
    predicted: Mapping[Choice, float]
    """The milliseconds that each choice was predicted to take, for those with a prediction."""

    def __str__(self) -> str:
        """Return the run in a few lines."""
        if self.backend == "none":
            return "nothing was run"
        gpus = "GPU " + ", ".join(map(str, self.devices))
        lines = [
            f"queued on {gpus}" if self.choice == "none" else f"{self.choice} ({self.reason})",
            f"path: {', '.join(self.path)}" + (f"; {gpus}" if self.devices else ""),
            f"threads: {self.threads}; chunks: {self.chunks}; bytes staged: {self.bytes_staged}",
        ]
        if self.time is not None:
            lines.append(f"time: {self.time:.3g} ms")
        if self.predicted:
            times = (f"{choice} {ms:.3g} ms" for choice, ms in self.predicted.items())
            lines.append(f"predicted: {', '.join(times)}")
        return "\n  ".join(lines)


def last_run() -> Run:
    """Return where and how this thread's last operation ran.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> with gpuvec.placement("cpu"):
    ...     _ = gpuvec.sum(np.ones(10))
    ...     run = gpuvec.last_run()
    >>> run.backend, run.choice, run.reason
    ('cpu', 'calling core', 'asked for')
    """
    run = RunStructure()
    check(functions.gpuvec_last_run(ctypes.byref(run), ctypes.sizeof(run)))
    return Run(
        backend=BACKENDS[run.backend],
        path=tuple(name for bit, name in enumerate(PATHS) if run.path >> bit & 1),
        devices=tuple(bit for bit in range(run.devices.bit_length()) if run.devices >> bit & 1),
        threads=run.threads,
        chunks=run.chunks,
        bytes_staged=run.bytes_staged,
        choice=CHOICES[run.choice],
        reason=REASONS[run.reason],
        time=run.time_ns / 1e6 if run.time_ns else None,
        predicted={choice: ns / 1e6 for choice, ns in zip(CHOICES, run.predicted_ns) if ns},
    )
