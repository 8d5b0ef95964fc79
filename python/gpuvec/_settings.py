"""Placement, threads, devices and versions."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import starmap
from typing import Literal, get_args

from ._errors import check, failure, made, with_error
from ._library import ALL_DEVICES, functions, ordinal, text

Placement = Literal["auto", "gpu", "cpu", "all"]

PLACEMENTS: tuple[Placement, ...] = get_args(Placement)


def get_placement() -> Placement:
    """Return the placement in force for this thread: "auto", "gpu", "cpu" or "all"."""
    number = int(functions.gpuvec_get_placement())
    if number >= len(PLACEMENTS):
        # The call leaves no text; gpuvec_why_cpu has it.
        error = failure(number)
        raise type(error)(number, why_cpu() or str(error))
    return PLACEMENTS[number]


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
        "cpu". See docs/explanation/placement.md.
    """
    check(functions.gpuvec_set_placement(_number(placement)))


@contextmanager
def placement(placement: Placement) -> Iterator[None]:
    """Set the placement of this thread's calls during a with statement; see `set_placement`.

    Other threads are not affected. `set_placement` inside the block sets the process's placement,
    which applies to this thread after the block.

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
        # The error of any other call says why.
        check(functions.gpuvec_init())
    return number


def set_device(device: int | None) -> None:
    """Set the GPU that works on host arrays in all later calls, in every thread of the process.

    Arrays in device memory are computed where they are.

    Parameters
    ----------
    device : int or None
        The GPU's number. With None a call uses the first GPU, or several if they are predicted to
        finish sooner. Initially it is the number in the environment variable ``GPUVEC_DEVICE``, or
        else None.

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
    """Return why no GPU is usable, such as a missing driver; empty if one is usable."""
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
    names = starmap(functions.gpuvec_device_name, [(ordinal(device),)])
    return text(made(*with_error(names)))


def version() -> str:
    """Return the library's version, "major.minor.patch"."""
    return text(functions.gpuvec_version())


def abi_version() -> int:
    """Return the version of the library's binary interface."""
    return int(functions.gpuvec_abi_version())
