"""The functions of the language, by the tables of its sources."""

import re
from pathlib import Path

_CRATES = Path(__file__).resolve().parents[2] / "crates"
_TABLE = _CRATES / "math/src/table.rs"
_ROWS = re.findall(r"^ +[A-Z]\w* (\w+)\(([x y]+)\) ", _TABLE.read_text(), re.MULTILINE)
_FORMULAS = _CRATES / "expr/src/formulas.rs"

# Those that have sequences of operations, by the number of their arguments.
OF_ONE = [name for name, arguments in _ROWS if arguments == "x"]
OF_TWO = [name for name, arguments in _ROWS if arguments == "x y"]

# Those that are one operation of a program.
_OPERATIONS = _CRATES / "expr/src/table.rs"
_RULES = "Number|Rounding|Float|FloatOnly|Select"
_OF_ONE_OPERATION = re.findall(
    rf'^ +\w+ "(\w+)" ([123]) (?:{_RULES}) "', _OPERATIONS.read_text(), re.MULTILINE
)
# Those that are formulas of others: of any types, of numbers, or of floats.
_OF_OTHERS = re.findall(
    r'^ +(any|numbers|floats)\(\s*"(\w+)",\s*([123]),', _FORMULAS.read_text(), re.MULTILINE
)

# Those that are formulas of others, and NumPy's names of reductions.
FORMULAS = [name for _, name, _ in _OF_OTHERS] + ["amin", "amax"]

# All functions but casts, by their names, with the number of their arguments; and those of floats
# whose result is a float.
ARITIES = {name: int(count) for name, count in _OF_ONE_OPERATION}
OF_FLOATS = ARITIES | {name: int(count) for kind, name, count in _OF_OTHERS if kind == "floats"}
ARITIES |= {name: int(count) for _, name, count in _OF_OTHERS}
