"""Placement, threads, the last run, devices and versions."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, NamedTuple, get_args

from ._errors import Error, check, failure, made
from ._library import ALL_DEVICES, RunStructure, functions, ordinal, text

Placement = Literal["auto", "gpu", "cpu", "all"]
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

PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
BACKENDS: tuple[Backend, ...] = get_args(Backend)
CHOICES: tuple[Choice, ...] = get_args(Choice)
REASONS: tuple[Reason, ...] = get_args(Reason)
PATHS = ("calling core", "cores", "staged", "dma", "mapped", "resident")


class Run(NamedTuple):
    """The place and the way in which an operation ran."""

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
    """Tell where and how this thread's last operation ran.

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


def get_placement() -> Placement:
    """Return the placement in force for this thread: "auto", "gpu", "cpu" or "all"."""
    number = int(functions.gpuvec_get_placement())
    if number >= len(PLACEMENTS):
        raise _environment_error(number)
    return PLACEMENTS[number]


def _environment_error(status: int) -> Error:
    # The call leaves no text; gpuvec_why_cpu has it.
    error = failure(status)
    return type(error)(status, why_cpu() or str(error))


def set_placement(placement: Placement) -> None:
    """Set the placement of all later calls, in every thread that is not in a `placement` block.

    Parameters
    ----------
    placement : {"auto", "gpu", "cpu", "all"}
        "auto", the default: on the cores, on GPUs, or on both at the same time, whichever is
        predicted to finish first from the times of earlier calls; the driver is opened once that
        pays off.
        "gpu": on the GPU, or an error. "cpu": on the number of cores that is predicted to finish
        first.
        "all": on all cores and all GPUs at the same time for long pinned arrays, otherwise as
        "cpu". See docs/placement.md.
    """
    check(functions.gpuvec_set_placement(_number(placement)))


@contextmanager
def placement(placement: Placement) -> Iterator[None]:
    """Set the placement of this thread's calls during a with statement; see `set_placement`.

    Other threads are not affected. A `set_placement` in the block is for the process, and is in
    force in this thread after the block.

    Examples
    --------
    >>> import gpuvec
    >>> with gpuvec.placement("cpu"):
    ...     gpuvec.get_placement()
    'cpu'
    """
    number = _number(placement)
    before = functions.gpuvec_get_thread_placement()
    try:
        check(functions.gpuvec_set_thread_placement(number))
        yield
    finally:
        check(functions.gpuvec_set_thread_placement(before))


def _number(placement: Placement) -> int:
    if placement not in PLACEMENTS:
        raise ValueError(f"placement is {placement!r}: pass one of {', '.join(PLACEMENTS)}")
    return PLACEMENTS.index(placement)


def set_num_threads(threads: int) -> None:
    """Set the maximum number of threads for each later call, in every thread of the process.

    A call uses the number of threads that is predicted to finish first.

    Parameters
    ----------
    threads : int
        The number, the calling thread included: with 1 it works alone. More than 256 count as 256.
        0 for the environment's: ``GPUVEC_NUM_THREADS``, else ``OMP_NUM_THREADS``, else one for each
        CPU.

    Examples
    --------
    >>> import gpuvec
    >>> gpuvec.set_num_threads(1)
    >>> gpuvec.get_num_threads()
    1
    >>> gpuvec.set_num_threads(0)
    """
    number = operator.index(threads)
    if number < 0:
        raise ValueError(f"threads is {number}: pass a number of threads, or 0")
    check(functions.gpuvec_set_num_threads(min(number, 2**31 - 1)))


def get_num_threads() -> int:
    """Return the maximum number of threads that may work on one call."""
    number = int(functions.gpuvec_get_num_threads())
    if number == 0:
        # The error of any other call tells why.
        check(functions.gpuvec_init())
    return number


def set_device(device: int | None) -> None:
    """Set the GPU that works on host arrays in all later calls, in every thread of the process.

    Arrays in device memory are computed where they are.

    Parameters
    ----------
    device : int or None
        The GPU's number. With None a call uses the first GPU, or several if the prediction says
        that these finish sooner. Before any call the number is that of the environment variable
        ``GPUVEC_DEVICE``, or else None.

    Examples
    --------
    >>> import gpuvec
    >>> gpuvec.set_device(0)
    >>> gpuvec.get_device()
    0
    >>> gpuvec.set_device(None)
    """
    check(functions.gpuvec_set_device(ALL_DEVICES if device is None else ordinal(device)))


def get_device() -> int | None:
    """Return the number of the GPU that works on host arrays; None if all may."""
    number = int(functions.gpuvec_get_device())
    return None if number == ALL_DEVICES else number


def why_cpu() -> str:
    """Tell why no GPU is usable: no driver, no device, placement "cpu"; empty if one is usable."""
    return text(functions.gpuvec_why_cpu())


def init() -> None:
    """Open the driver and the first GPU, and start the worker threads.

    With placement "auto", calls on host arrays may use a GPU from then on; otherwise they open it
    once that pays off. A driver or a GPU that failed before is tried again. Without a GPU the
    function succeeds, except with placement "gpu".
    """
    check(functions.gpuvec_init())


def device_count() -> int:
    """Return the number of GPUs that the driver shows to this process; 0 without a driver."""
    return int(functions.gpuvec_device_count())


def device_name(device: int = 0) -> str:
    """Return the name of a GPU.

    Raises
    ------
    Error
        If there is no such GPU.
    """
    return text(made(functions.gpuvec_device_name(ordinal(device))))


def version() -> str:
    """Return the library's version, "major.minor.patch"."""
    return text(functions.gpuvec_version())


def abi_version() -> int:
    """Return the version of the library's binary interface."""
    return int(functions.gpuvec_abi_version())
