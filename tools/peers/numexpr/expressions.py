"""`E`: formulas that are made by Python's operators, as texts."""

from typing import Any, Callable

from . import refuse


def binary(operator: str, is_swapped: bool = False) -> Callable[..., "Formula"]:
    """Makes a method of an operator."""

    def apply(left: Any, right: Any) -> "Formula":
        if is_swapped:
            left, right = right, left
        return Formula(f"({left} {operator} {right})")

    return apply


class Formula:
    """The text of a formula."""

    def __init__(self, text: str):
        self.text = text

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    __add__, __radd__ = binary("+"), binary("+", is_swapped=True)
    __sub__, __rsub__ = binary("-"), binary("-", is_swapped=True)
    __mul__, __rmul__ = binary("*"), binary("*", is_swapped=True)
    __truediv__, __rtruediv__ = binary("/"), binary("/", is_swapped=True)


class Names:
    """Makes a formula of every name."""

    def __getattr__(self, name: str) -> "Formula":
        """Return the formula of a name."""
        return Formula(name)


class ConstantNode:
    """A node of numexpr's own syntax tree."""

    def __init__(self, _: Any):
        refuse("numexpr's own program")


E = Names()
