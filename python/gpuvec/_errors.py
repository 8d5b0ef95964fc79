"""Exceptions, by the status that a function returned."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from itertools import chain, starmap
from typing import Any, TypeVar

from ._library import functions, text

T = TypeVar("T")


class Status(enum.IntEnum):
    """The statuses of the library's functions, without the prefix ``GPUVEC_``."""

    OK = 0
    NOT_READY = 1
    ERROR_NULL = 101
    ERROR_MISALIGNED = 102
    ERROR_SIZE = 103
    ERROR_OVERLAP = 104
    ERROR_OUT_OF_BOUNDS = 105
    ERROR_POINTER = 106
    ERROR_VALUE = 107
    ERROR_HANDLE = 108
    ERROR_EMPTY = 109
    ERROR_STATE = 110
    ERROR_EXPRESSION = 111
    ERROR_NO_GPU = 201
    ERROR_FORKED = 202
    ERROR_ENVIRONMENT = 203
    ERROR_PLACEMENT = 204
    ERROR_REENTRANT = 205
    ERROR_OUT_OF_MEMORY = 301
    ERROR_DRIVER = 401
    ERROR_DEVICE_LOST = 402
    ERROR_INTERNAL = 901


class Error(Exception):
    """A call of the library failed.

    Attributes
    ----------
    status : Status
        The status that the function returned; a plain int if a later version of the library added
        it.
    """

    status: int

    def __init__(self, status: int, description: str) -> None:
        super().__init__(status, description)
        try:
            self.status = Status(status)
        except ValueError:
            self.status = status

    def __str__(self) -> str:
        """Return the library's description of the error."""
        return str(self.args[1])


class ArgumentError(Error, ValueError):
    """An argument is wrong (1xx): an overlap, an address, a handle, a damaged state."""


class ExpressionError(ArgumentError):
    """The text of an expression is wrong; the message shows the place."""


class UnavailableError(Error, RuntimeError):
    """The call cannot run here or as requested (2xx): no GPU, a forked child, the environment."""


class OutOfMemoryError(Error, MemoryError):
    """Host, pinned or device memory ran out (3xx)."""


class DeviceError(Error, RuntimeError):
    """The driver or a device failed (4xx)."""


class InternalError(Error, RuntimeError):
    """A defect in gpuvec (9xx)."""


_CLASSES: dict[int, type[Error]] = {
    1: ArgumentError,
    2: UnavailableError,
    3: OutOfMemoryError,
    4: DeviceError,
    9: InternalError,
}


def failure(status: int, error: bytes | None = None) -> Error:
    """Makes the exception for this thread's last call, or for one whose error is known."""
    # The text is empty if another call of this thread, in a finalizer, succeeded in between.
    error = functions.gpuvec_last_error() if error is None else error
    described = text(error) or text(functions.gpuvec_status_string(status))
    kind = _CLASSES.get(status // 100, Error)
    return (ExpressionError if status == Status.ERROR_EXPRESSION else kind)(status, described)


def check(status: int) -> None:
    """Raises the exception for a status that is an error."""
    if status:
        raise failure(status)


def with_error(results: Iterable[Any]) -> Iterator[Any]:
    """Yields a call's results, then its status and the text of its error.

    The iteration runs in C, without bytecodes at which finalizers might make other calls.
    """
    status, error = functions.gpuvec_last_status, functions.gpuvec_last_error
    return chain(results, starmap(status, [()]), starmap(error, [()]))


def made(pointer: T | None, status: int, error: bytes) -> T:
    """Returns the result of a call; raises an exception if it is NULL."""
    if pointer is None:
        # A call that was refused in a signal handler stored no status.
        raise failure(status or Status.ERROR_REENTRANT, error)
    return pointer
