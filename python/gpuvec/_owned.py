"""Owns objects that the library created: each is released exactly once, whatever happens.

Python runs signal handlers between bytecodes, and they may raise there, as Ctrl-C does. So an
object is created and noted in one call of C code, and released in one call when its owner is gone,
with no bytecode in between.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Iterable
from ctypes import c_void_p
from itertools import compress, starmap
from operator import not_
from typing import Any

from ._errors import made, with_error


class _Release(weakref.ref["Owned"]):
    """A weak reference whose callback, a function of the library, is passed a handle instead."""

    __slots__ = ("_as_parameter_",)

    _as_parameter_: c_void_p


# The releases of all owners. The key is a second weak reference to the owner; its callback removes
# the release.
_releases: dict[weakref.ref[Owned], _Release] = {}

# The end of the process releases the remaining objects: objects may outlive the interpreter's exit
# handlers.
atexit.register(_releases.clear)


class Owned:
    """Owns a handle or memory, which is released with this object."""

    __slots__ = ("__weakref__", "handle")

    def __init__(self, release: Any) -> None:
        """Registers the release, which does nothing as long as the handle is NULL."""
        self.handle = c_void_p()
        reference = _Release(self, release)
        reference._as_parameter_ = self.handle
        _releases[weakref.ref(self, _releases.pop)] = reference

    def create(self, function: Any, *arguments: object) -> int:
        """Calls a function that creates an owned object, and notes and returns its result."""
        return self._note(starmap(function, [arguments]))

    def claim(self, address: int, function: Any, *arguments: object) -> None:
        """Calls a function; if it succeeds, this object releases the address later."""
        is_claimed = map(not_, starmap(function, [arguments]))
        self._note(compress([address], is_claimed))

    def _note(self, handles: Iterable[Any]) -> int:
        noted = map(setattr, [self.handle], ["value"], handles)
        *_, status, error = with_error(noted)
        return made(self.handle.value, status, error)
