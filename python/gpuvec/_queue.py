"""Calls of the library that use arrays on a stream."""

from __future__ import annotations

from typing import Any

from ._device_array import DeviceArray
from ._errors import Status, check, failure
from ._library import functions
from ._streams import Call, Stream


def call(
    stream: Stream | None,
    objects: tuple[Any, ...],
    kept: tuple[object, ...],
    function: Any,
    *arguments: Any,
) -> None:
    """Calls a function of the library, which queues its work if there is a stream.

    The stream keeps the memory of ``kept`` until it is done with the work, and every `DeviceArray`
    among the ``objects`` waits for it.

    The use of the arrays is noted before the call: an exception may come from a signal handler at
    any point, and the arrays are then kept, and waited for, as if the work were queued.
    """
    if stream is None:
        check(function(*arguments, None))
        return
    this = Call()
    use = stream._hold(this, kept)
    arrays = [used for used in objects if isinstance(used, DeviceArray)]
    before = [(used, used._note(use, stream)) for used in arrays]
    status = function(*arguments, stream._handle)
    error = failure(status) if status else None
    unrecorded = use.close()
    if max(status, unrecorded) >= Status.ERROR_OUT_OF_MEMORY:
        # A part of the work may be queued.
        functions.gpuvec_stream_synchronize(stream._handle)
    if error:
        raise error
    check(unrecorded)
    for used, earlier in before:
        used._uses.difference_update(earlier)
    stream._release()
