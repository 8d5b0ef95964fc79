"""Reductions by key: one result for the elements of each key."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ._declarations import NAMES, check_keywords, code, joined, keywords_of, merged
from ._errors import ArgumentError, Status
from ._evaluate import MOST_REMEMBERED, evaluate, forget, remembered
from ._expressions import compiled
from ._group import Groups
from ._shapes import axes_in

if TYPE_CHECKING:
    from ._dlpack import Found
    from ._expressions import Expression
    from ._shapes import Axis
    from ._streams import Stream

# GPUVEC_IGNORE_OUTSIDE.
IGNORE_OUTSIDE = 1
# What `outside=` may be.
OUTSIDE = ("error", "ignore")


class Keys(NamedTuple):
    """The keys of a call: the name of their array, if it is one, and the number of groups."""

    name: str | None
    groups: int
    flags: int

    def placed(self, arrays: dict[str, Found], axis: Axis) -> dict[str, Found]:
        """Returns the arrays, with the axes of the keys in the place of the reduced axes.

        Keys that have as many axes as the elements are broadcast as other arrays are.
        """
        if self.name is None or axis is None:
            return arrays
        keys, ndim = arrays[self.name], max(found.array.ndim for found in arrays.values())
        axes = axes_in(axis, ndim)
        if keys.array.ndim != len(axes):
            return arrays
        index = tuple(slice(None) if at in axes else None for at in range(ndim))
        return {**arrays, self.name: keys._replace(array=keys.array[index])}


def by_key(
    text: str | tuple[str, ...],
    inputs: Any,
    named: dict[str, Any],
    keys: tuple[Any, int | None, str],
    out: Any = None,
    stream: Stream | None = None,
    axis: Axis = None,
    keepdims: bool = False,
    na: Any = None,
) -> Any:
    """Evaluates reductions by key: see `evaluate`. ``keys`` has ``by``, ``groups``, ``outside``."""
    by, groups, outside = keys
    texts = (
        *(text if isinstance(text, tuple) else (text,)),
        *([by] if isinstance(by, str) else []),
    )
    given = named if inputs is None else merged(inputs, named, texts)
    names = re.findall(NAMES, joined(texts))
    keywords = {"by": by, "groups": groups, **keywords_of(out, stream, axis, keepdims, na)}
    check_keywords(names, given, keywords)
    if by is None:
        raise TypeError(f"groups is {groups}, without keys: pass by=, the keys of the elements")
    if keepdims:
        raise TypeError("keepdims is True, but the groups are an axis of the result: leave it out")
    if outside not in OUTSIDE:
        raise ValueError(f'outside is {outside!r}: pass "error" or "ignore"')
    labelled = by if isinstance(by, Groups) else None
    if labelled is not None:
        if groups is not None:
            raise TypeError(f"groups is {groups}, but by has its own groups: leave groups out")
        by, groups, outside = labelled._keys, len(labelled), "ignore"
    of_keys, name = by, None
    if not isinstance(by, str):
        name = _unused_name(given, names)
        given = {**given, name: by}
        is_bool = code(name, by) & 255 == 1
        of_keys = f"i64({name})" if is_bool else name
    expression = _compiled(text, of_keys, given)
    if groups is None:
        groups = _number_of_groups(of_keys, given, stream, na)
    called = Keys(name, _count(groups), IGNORE_OUTSIDE if outside == "ignore" else 0)
    result = expression._generally(given, out, stream, axis, False, na, called)
    if labelled is None:
        return result
    given_outputs = expression._given(out)
    values = result if expression._is_tuple else (result,)
    wrapped = tuple(
        labelled._labelled(one, given) if to is None and one.ndim == 1 else one
        for one, to in zip(values, given_outputs)
    )
    return wrapped if expression._is_tuple else wrapped[0]


def _compiled(text: Any, by: str, given: dict[str, Any]) -> Expression:
    """Returns the expression for the types of the arguments, which is remembered."""
    codes = [code(name, value) for name, value in given.items()]
    key = (text, by, None, *given, *codes)
    expression = remembered.get(key)
    if expression is None:
        if len(remembered) >= MOST_REMEMBERED:
            forget()
        expression = remembered[key] = compiled(text, tuple(given), tuple(codes), None, True, by)
    return expression


def _unused_name(given: dict[str, Any], names: list[str]) -> str:
    """Returns a name for the keys that is not an input's and not in the text."""
    name = "by"
    while name in given or name in names:
        name += "_"
    return name


def _number_of_groups(keys: str, given: dict[str, Any], stream: Stream | None, na: Any) -> int:
    """Returns the largest key and one; 0 if there are no keys, or only negative ones."""
    names = re.findall(NAMES, keys)
    inputs = {name: value for name, value in given.items() if name in names}
    try:
        largest = evaluate(f"max(i64({keys}))", inputs, stream=stream, na=na)
    except ArgumentError as error:
        if error.status == Status.ERROR_EMPTY:
            return 0
        raise
    return max(int(largest) + 1, 0)


def _count(groups: Any) -> int:
    """Returns a number of groups; raises an error if it is not one."""
    try:
        if isinstance(groups, bool):
            raise TypeError
        count = operator.index(groups)
    except TypeError:
        raise TypeError(f"groups is {groups!r}: pass an integer, the number of groups") from None
    if not 0 <= count < 2**63:
        raise ValueError(f"groups is {count}: pass the number of groups, from 0 to 2**63 - 1")
    return count
