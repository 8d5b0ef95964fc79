"""Reads recordings of functions, which crates/math/examples/record.rs writes, as graphs of
operations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

CONSTANTS = {"Float", "Bits"}
WITH_NUMBER = {"ShiftLeft", "ShiftRight"}


@dataclass(frozen=True)
class Node:
    """An operation: its operands are places of nodes, or for constants and shifts also a number."""

    operation: str
    operands: tuple
    number: int = 0


@dataclass
class Recording:
    """A function: nodes, of which the first are the arguments, and the place of the result."""

    nodes: list
    result: int


def read(text: str) -> dict:
    """Returns the recordings in a text by the functions' names."""
    recordings = {}
    lines = iter(text.splitlines())
    for line in lines:
        name, arguments = line.split()
        recordings[name] = _read_one(lines, int(arguments))
    return recordings


def _read_one(lines: Iterable[str], arguments: int) -> Recording:
    """Reads up to `Return`. Equal operations become one node, and rare sequences become choices."""
    nodes = [Node("Argument", (), i) for i in range(arguments)]
    places = {node: place for place, node in enumerate(nodes)}
    values = list(range(arguments))

    def place(node: Node) -> int:
        if node not in places:
            places[node] = len(nodes)
            nodes.append(node)
        return places[node]

    condition = -1
    for line in lines:
        operation, *words = line.split()
        numbers = [int(word) for word in words]
        if operation in CONSTANTS:
            values.append(place(Node(operation, (), numbers[0])))
        elif operation == "Return":
            return Recording(nodes, values[numbers[0]])
        elif operation == "SkipUnless":
            condition = values[numbers[0]]
        elif operation == "Set":
            old, new = values[numbers[0]], values[numbers[1]]
            values[numbers[0]] = place(Node("Select", (new, old, condition)))
        elif operation == "Copy":
            values.append(values[numbers[0]])
        elif operation != "End":
            number = numbers.pop() if operation in WITH_NUMBER else 0
            operands = tuple(values[i] for i in numbers)
            values.append(place(Node(operation, operands, number)))
    raise ValueError("a recording ends with Return")
