"""Streams, which run queued work in order, and events, which mark points in that order."""

from __future__ import annotations

import ctypes
import itertools
import sys
import weakref
from typing import Any, NoReturn

from ._errors import Status, check, failure
from ._library import functions, ordinal
from ._owned import Owned

# The legacy default stream, as CUDA, DLPack and __cuda_array_interface__ number it.
LEGACY_DEFAULT_STREAM = 1

_numbers = itertools.count()


class _Handle:
    """A handle of the library, which belongs to this process."""

    __slots__ = ("__weakref__", "_handle", "_owned")

    def _create(self, create: Any, destroy: Any, *arguments: object) -> None:
        self._owned = Owned(destroy)
        self._handle = self._owned.create(create, *arguments)

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
        self._create(functions.gpuvec_event_create, functions.gpuvec_event_destroy)

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


class Call:
    """A call of the library that queues work, as long as the work may still be queued."""

    __slots__ = ("__weakref__",)


class Use:
    """The use of arrays by a call on a stream: noted before the call, ended by an event behind it.

    If an exception comes in between, the use stays open: the end of the stream's work ends it.
    """

    __slots__ = ("_call", "_event", "_stream", "is_closed")

    def __init__(self, stream: Stream, call: Call) -> None:
        self._stream = stream._handle
        self._call = weakref.ref(call)
        self._event = Event()
        self.is_closed = False

    def close(self) -> int:
        """Records the event behind the work that was queued; returns the status."""
        status: int = functions.gpuvec_event_record(self._event._handle, self._stream)
        self.is_closed = status == Status.OK
        return status

    def may_begin(self) -> bool:
        """Returns whether the call may still queue work."""
        return not self.is_closed and self._call() is not None

    def is_of(self, stream: Stream) -> bool:
        """Returns whether the call is on that stream."""
        return self._stream == stream._handle

    def query(self) -> int:
        """Returns without waiting OK if the work is done, NOT_READY, or an error."""
        if not self.is_closed and (status := self.close()) != Status.OK:
            return status
        return int(functions.gpuvec_event_query(self._event._handle))

    def is_over(self) -> bool:
        """Returns, without waiting, whether the call is over and its work is known to be done."""
        return self.is_closed and self.query() == Status.OK

    def wait(self) -> int:
        """Waits until the work is done; returns the status."""
        if self.is_closed:
            status = int(functions.gpuvec_event_synchronize(self._event._handle))
            # Work that a graph captured runs when the graph is launched, which its owner waits for.
            return Status.OK if status == Status.ERROR_VALUE else status
        status = int(functions.gpuvec_stream_synchronize(self._stream))
        # A stream that is gone has waited for its work.
        return Status.OK if status == Status.ERROR_HANDLE else status


# The uses of arrays by a stream's work, with the arrays, by numbers.
_Held = dict[int, "tuple[Use, tuple[object, ...]]"]


class Stream(_Handle):
    """A queue of work for a GPU, done in order while the caller goes on.

    Calls with ``stream=`` return at once if the GPU can access every array: device memory of that
    GPU, and pinned memory. No thread may change these arrays until the stream is done with them.
    The stream keeps them alive until then; a stream that is dropped waits for their work. Other
    calls return when their work is done, and so does every call without a GPU.

    Only events order the work of two streams. A call without ``stream=`` waits for the work that
    was queued on each `DeviceArray` that it uses; synchronize the stream before other uses of
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
        self._begin(LEGACY_DEFAULT_STREAM, functions.gpuvec_stream_create, ordinal(device))

    @classmethod
    def from_native(cls, native: Any) -> Stream:
        """Adopt an existing stream, so that gpuvec queues its work there.

        Parameters
        ----------
        native : int or object with ``__cuda_stream__``
            A ``CUstream`` (``cudaStream_t``) of a device's primary context, as streams of the CUDA
            runtime, CuPy (``stream.ptr``) and PyTorch (``stream.cuda_stream``) are. Its owner must
            not destroy it before this object. 0 and 1 are the legacy default stream, 2 is the
            per-thread default stream.

        Notes
        -----
        A CUDA graph may capture calls on the stream. Keep their arrays and expressions as long as
        the graph, and wait for its launches before other uses of the arrays.
        """
        protocol = getattr(native, "__cuda_stream__", None)
        native = int(protocol()[1] if protocol else native)
        stream = cls.__new__(cls)
        stream._begin(native or LEGACY_DEFAULT_STREAM, functions.gpuvec_stream_from_native, native)
        return stream

    def _begin(self, native: int, create: Any, argument: int) -> None:
        _end_streams()
        self._native, self._held = native, {}
        self._create(create, functions.gpuvec_stream_destroy, argument)
        _streams[weakref.ref(self, _end_stream)] = self._owned, self._held

    def synchronize(self) -> None:
        """Wait until all work queued on the stream is done."""
        done = [key for key, (use, _) in self._held.copy().items() if not use.may_begin()]
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

    def __exit__(self, *error: object) -> None:
        """Wait for the stream."""
        self.synchronize()

    def _hold(self, call: Call, arrays: tuple[object, ...]) -> Use:
        """Keeps the arrays of a call until the stream is done with them; the call comes later."""
        use = Use(self, call)
        self._held[next(_numbers)] = use, arrays
        return use

    def _release(self) -> None:
        """Releases the arrays of work that is done."""
        for number, (use, _) in self._held.copy().items():
            if use.may_begin():
                continue
            status = use.query()
            if status == Status.NOT_READY:
                # The work behind it is not done either.
                return
            # After an error, and for work in a captured graph, it is unknown whether the work is
            # done: its arrays are held.
            if status == Status.OK:
                self._held.pop(number, None)


def check_stream(stream: Stream | None) -> None:
    """Raises TypeError unless an argument is a stream or None."""
    if stream is not None and not isinstance(stream, Stream):
        raise TypeError(
            f"stream is of type {type(stream).__name__}: pass a gpuvec.Stream; "
            "gpuvec.Stream.from_native adopts a stream of another library"
        )


def handle_of(stream: Stream | None) -> int | None:
    """Returns the library's argument for a stream."""
    check_stream(stream)
    return None if stream is None else stream._handle


def _is_done(status: int) -> bool:
    if status not in (Status.OK, Status.NOT_READY):
        raise failure(status)
    return status == Status.OK


# The handles and the held arrays of all streams; of one that is gone, until its work is done.
_streams: dict[weakref.ref[Stream], tuple[Owned, _Held]] = {}


def _end_stream(ended: weakref.ref[Stream], is_exiting: Any = sys.is_finalizing) -> None:
    """Destroys a stream when the arrays of its work are no longer in use.

    An exception of a signal handler may come at any point: `_end_streams` then does it again.
    """
    if is_exiting():
        return
    _, held = _streams.get(ended, (None, {}))
    for use, _ in held.copy().values():
        use.wait()
    _streams.pop(ended, None)


def _end_streams() -> None:
    """Ends the streams that are gone, and were not ended because of an exception."""
    for stream in _streams.copy():
        if stream() is None:
            _end_stream(stream)
