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

# Those that are formulas of others, and NumPy's names of reductions.
FORMULAS = re.findall(r'^ +(?:any|numbers|floats)\(\s*"(\w+)"', _FORMULAS.read_text(), re.MULTILINE)
FORMULAS += ["amin", "amax"]
