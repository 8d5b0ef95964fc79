"""The functions of the language that have sequences of operations, by the table in crates/math."""

import re
from pathlib import Path

_TABLE = Path(__file__).resolve().parents[2] / "crates/math/src/table.rs"
_ROWS = re.findall(r"^ +[A-Z]\w* (\w+)\(([x y]+)\) ", _TABLE.read_text(), re.MULTILINE)

OF_ONE = [name for name, arguments in _ROWS if arguments == "x"]
OF_TWO = [name for name, arguments in _ROWS if arguments == "x y"]
