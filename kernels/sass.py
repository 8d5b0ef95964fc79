"""The machine code of kernels: what they run on the fast path.

The fast path of an elementwise kernel leads from the load of a vector of elements to its store by
the fewest instructions: past what is computed once more for the few elements for which a fast
function is not right.
"""

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

# The instructions of the units for f64, and the conversions between f64 and other types.
OF_F64 = re.compile(r"D(ADD|MUL|FMA|SETP|MNMX)\b|[FI]2[FI]\S*\.F64|MUFU\.\w+64H")


class FastPath(NamedTuple):
    """The number of instructions on a path, and of instructions of f64 among them."""

    instructions: int
    of_f64: int


def instructions(disassembler: Path, cubin: Path) -> list[tuple[str, list[int]]]:
    """Returns a kernel's instructions, each with the places of its successors."""
    listing = subprocess.run(
        [disassembler, "-c", cubin], capture_output=True, text=True, check=True
    )
    texts, labels = [], {}
    for line in listing.stdout.splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = len(texts)
        elif instruction := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?);", line):
            texts.append(instruction[1].strip())
    return [(text, successors(place, text, labels)) for place, text in enumerate(texts)]


def successors(place: int, text: str, labels: dict[str, int]) -> list[int]:
    """Returns the places to which an instruction leads."""
    jump = re.search(r"(BRA|CALL)\S* .*?`\((\.L_x_\d+)\)", text)
    is_last = re.match(r"(BRA|EXIT|RET|BRX)\b(?!.* !?P\d)", text)
    targets = [labels[jump[2]]] if jump else []
    return targets if is_last else [*targets, place + 1]


def fast_path(disassembler: Path, cubin: Path) -> FastPath:
    """Finds the fast path of the elementwise kernel in an image for one architecture."""
    code = instructions(disassembler, cubin)
    start = next(place for place, (text, _) in enumerate(code) if "LDG.E.128" in text)
    stores = [place for place, (text, _) in enumerate(code) if "STG.E.128" in text]
    before, reached = {start: start}, [start]
    for place in reached:
        for follower in code[place][1]:
            if follower < len(code) and follower not in before:
                before[follower] = place
                reached.append(follower)
    path = [stores[-1]]
    while path[-1] != start:
        path.append(before[path[-1]])
    return FastPath(len(path), sum(1 for place in path if OF_F64.search(code[place][0])))
