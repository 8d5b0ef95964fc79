"""Checks and reads arrays that have a ``__cuda_array_interface__``."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ._dlpack import Found, described
from ._streams import LEGACY_DEFAULT_STREAM, Event, Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray


def found_on_gpu(name: str, argument: Any, stream: Stream | None) -> Found:
    """Finds the elements of an argument; its own library's work precedes work of ``stream``."""
    interface = argument.__cuda_array_interface__
    array = _checked(name, interface, argument)
    native = interface.get("stream")
    # Every call is ordered with the legacy default stream.
    if native not in (None, LEGACY_DEFAULT_STREAM):
        event = Event()
        event.record(Stream.from_native(native))
        if stream is None:
            event.synchronize()
        else:
            stream.wait(event)
    # The interface does not name the GPU: results go to the first.
    return Found(array, 0)


def _checked(name: str, interface: Any, owner: object) -> NDArray[Any]:
    """Returns the array that an interface describes; raises an error if the interface is wrong."""
    its = f"{name} has a __cuda_array_interface__"
    if not isinstance(interface, Mapping):
        raise TypeError(f"{its} that is {interface!r}: pass an array whose interface is a dict")
    # A copy, whose entries stay the same.
    interface = dict(interface)
    if interface.get("mask") is not None:
        raise TypeError(
            f"{name} has a mask, and gpuvec does not apply masks: pass an array without one, whose "
            "masked elements were replaced or left out"
        )
    for entry in ("version", "shape", "typestr", "data"):
        if entry not in interface:
            raise TypeError(f"{its} without {entry!r}: pass an array whose interface is complete")

    def wrong(entry: str, wanted: str) -> TypeError:
        return TypeError(f"{its} with {entry} {interface[entry]!r}: pass an array with {wanted}")

    shape = _numbers(interface["shape"])
    if shape is None or any(length < 0 for length in shape):
        raise wrong("shape", "a tuple of lengths")
    strides = interface.get("strides")
    if strides is not None:
        strides = _numbers(strides)
        if strides is None or len(strides) != len(shape):
            raise wrong("strides", f"None or a tuple of {len(shape)} numbers of bytes")
    try:
        [address, is_read_only] = interface["data"]
        address = operator.index(address)
    except (TypeError, ValueError):
        raise wrong("data", "an address and whether it is read-only") from None
    if not 0 <= address < 2**64:
        raise wrong("data", "an address of 64 bits")
    if not _is_typestr(interface["typestr"]):
        raise wrong("typestr", "a str of an element type, as '<f4'")
    _check_stream(its, interface.get("stream"))
    return described(name, address, shape, interface["typestr"], strides, bool(is_read_only), owner)


def _numbers(entry: Any) -> tuple[int, ...] | None:
    """Returns a sequence of integers as a tuple; None if it is something else."""
    try:
        return tuple(map(operator.index, entry))
    except TypeError:
        return None


def _is_typestr(entry: Any) -> bool:
    try:
        return isinstance(entry, str) and not np.dtype(entry).hasobject
    except (TypeError, ValueError):
        return False


def _check_stream(its: str, native: Any) -> None:
    """Raises an error unless an entry is a stream, as the protocol numbers it, or None."""
    if native is None:
        return
    if not isinstance(native, (int, np.integer)):
        raise TypeError(f"{its} with stream {native!r}: pass an array with a number or None there")
    if native <= 0:
        raise ValueError(
            f"{its} with stream {native}, which the protocol forbids: pass an array with None, 1 "
            "(the legacy default stream), 2 (the per-thread default stream) or a stream's address"
        )
