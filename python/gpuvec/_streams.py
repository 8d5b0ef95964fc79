"""Streams, which do queued work in order, and events, which are points in that order."""

from __future__ import annotations

import ctypes
import itertools
from types import TracebackType
from typing import Any, NoReturn

from ._errors import Error, Status, check, failure, made
from ._library import functions, ordinal, release_with

# The legacy default stream, as CUDA, DLPack and __cuda_array_interface__ number it.
LEGACY_DEFAULT_STREAM = 1

_numbers = itertools.count()

# Arrays and the event behind the work that uses them, by a number of their own.
_Held = dict[int, "tuple[Event, tuple[object, ...]]"]


class _Handle:
    """A handle of the library's, which belongs to this process."""

    __slots__ = ("__weakref__", "_handle")

    _handle: int

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} belongs to its process: it cannot be pickled")


class Event(_Handle):
    """A point in a stream's work, to wait for or to measure times between.

    Examples
    --------
    >>> import gpuvec
    >>> stream, start, end = gpuvec.Stream(), gpuvec.Event(), gpuvec.Event()
    >>> start.record(stream)
    >>> end.record(stream)
    >>> start.elapsed(end) >= 0
    True
    """

    __slots__ = ()

    def __init__(self) -> None:
        self._handle = made(functions.gpuvec_event_create())

    def __del__(self, destroy: Any = functions.gpuvec_event_destroy) -> None:
        """Destroy the event; each queued call makes one, and this is faster than a finalizer."""
        destroy(getattr(self, "_handle", None))

    def record(self, stream: Stream | None = None) -> None:
        """Record the event behind the work that is queued on a stream now.

        Parameters
        ----------
        stream : Stream, optional
            Without a stream the event is done at once.
        """
        check(functions.gpuvec_event_record(self._handle, handle_of(stream)))

    def is_done(self) -> bool:
        """Return whether the work before the event is done; True if it was never recorded."""
        return _is_done(functions.gpuvec_event_query(self._handle))

    def synchronize(self) -> None:
        """Wait until the work before the event is done."""
        check(functions.gpuvec_event_synchronize(self._handle))

    def elapsed(self, end: Event) -> float:
        """Wait for both events, and return the milliseconds from this one to ``end``."""
        self.synchronize()
        end.synchronize()
        ms = ctypes.c_float()
        check(functions.gpuvec_event_elapsed(self._handle, end._handle, ctypes.byref(ms)))
        return ms.value


class Stream(_Handle):
    """A queue of work for a GPU, done in order while the caller goes on.

    Calls with ``stream=`` return at once if the GPU can access every array: device memory of that
    GPU, and pinned memory. No thread may change these arrays until the stream is done with them.
    The stream keeps them alive until then; a stream that is dropped waits for their work. Other
    calls return when their work is done, and so does every call without a GPU.

    Work of two streams is ordered by events alone. A call without ``stream=`` waits for the work
    that was queued on each `DeviceArray` that it uses; synchronize the stream before other uses of
    arrays in pinned memory.

    As a context manager a stream is synchronized at the end of the block.

    Parameters
    ----------
    device : int, default 0
        The GPU; 0 without a GPU.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> x = gpuvec.to_device(np.arange(4, dtype=np.float32))
    >>> with gpuvec.Stream() as stream:
    ...     _ = gpuvec.scale(2, x, out=x, stream=stream)
    ...     _ = gpuvec.add(x, x, out=x, stream=stream)
    >>> x.to_host()
    array([ 0.,  4.,  8., 12.], dtype=float32)
    """

    __slots__ = ("_held", "_native")

    _held: _Held
    # The native stream that other libraries' work has to precede. The library's own streams are
    # ordered with the legacy default stream.
    _native: int

    def __init__(self, device: int = 0) -> None:
        self._set(functions.gpuvec_stream_create(ordinal(device)), LEGACY_DEFAULT_STREAM)

    @classmethod
    def from_native(cls, native: Any) -> Stream:
        """Adopt an existing stream, so that gpuvec queues its work there.

        Parameters
        ----------
        native : int or object with ``__cuda_stream__``
            A ``CUstream`` (``cudaStream_t``) of a device's primary context, as streams of the CUDA
            runtime, CuPy (``stream.ptr``) and PyTorch (``stream.cuda_stream``) are. Its owner
            keeps it and must not destroy it before this object. 0 and 1 are the legacy default
            stream, 2 is the per-thread default stream.
        """
        protocol = getattr(native, "__cuda_stream__", None)
        native = int(protocol()[1] if protocol else native)
        stream = cls.__new__(cls)
        handle = functions.gpuvec_stream_from_native(native)
        stream._set(handle, native or LEGACY_DEFAULT_STREAM)
        return stream

    def _set(self, handle: int | None, native: int) -> None:
        self._handle, self._native = made(handle), native
        self._held = {}
        release_with(self, _end_stream, self._handle, self._held)

    def synchronize(self) -> None:
        """Wait until all work queued on the stream is done."""
        done = list(self._held)
        check(functions.gpuvec_stream_synchronize(self._handle))
        for number in done:
            self._held.pop(number, None)

    def is_done(self) -> bool:
        """Return, without waiting, whether all work queued on the stream is done."""
        return _is_done(functions.gpuvec_stream_query(self._handle))

    def wait(self, event: Event) -> None:
        """Make work that is queued from now on wait for an event of any stream or device."""
        check(functions.gpuvec_stream_wait(self._handle, event._handle))

    def __enter__(self) -> Stream:
        """Return the stream."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait for the stream."""
        self.synchronize()

    def _hold(self, *arrays: object) -> Event | None:
        """Keeps the arrays of a call that was just queued until the stream is done with them.

        Returns the event behind the call, or None if it is done. Threads may hold and release at
        once: an entry is made after its work was queued, and its event behind that.
        """
        try:
            event = Event()
            event.record(self)
        except Error:
            functions.gpuvec_stream_synchronize(self._handle)
            raise
        self._held[next(_numbers)] = event, arrays
        for number, (earlier, _) in list(self._held.items()):
            # An event in a captured graph has no answer: its arrays are held.
            if functions.gpuvec_event_query(earlier._handle) != Status.OK:
                return event
            self._held.pop(number, None)
        return None


def handle_of(stream: Stream | None) -> int | None:
    """Returns what the library takes for a stream."""
    if stream is None:
        return None
    if not isinstance(stream, Stream):
        raise TypeError(
            f"stream is a {type(stream).__name__}: pass a gpuvec.Stream; "
            "gpuvec.Stream.from_native adopts a stream of another library"
        )
    return stream._handle


def check_queued(status: int, stream: Stream | None) -> None:
    """Raises the exception for a status that is an error of a call with or without a stream."""
    if status:
        error = failure(status)
        if stream is not None and status >= Status.ERROR_OUT_OF_MEMORY:
            # A part of the work may be queued, and nothing keeps its arrays alive.
            functions.gpuvec_stream_synchronize(stream._handle)
        raise error


def _is_done(status: int) -> bool:
    if status not in (Status.OK, Status.NOT_READY):
        raise failure(status)
    return status == Status.OK


def _end_stream(handle: int, held: _Held) -> None:
    """Destroys a stream when the arrays of its work are no longer in use."""
    for event, _ in held.values():
        functions.gpuvec_event_synchronize(event._handle)
    held.clear()
    functions.gpuvec_stream_destroy(handle)
