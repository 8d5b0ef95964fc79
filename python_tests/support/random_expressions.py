"""Random expressions and data, compared with NumPy; the smallest that still fails is reported."""

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Optional

import gpuvec
import numpy as np
from functions import ARITIES
from numpy_oracle import FUNCTIONS, Undecided, Unfit, Wrong, evaluate
from numpy_reductions import BOOL, REDUCTIONS, Refused

DTYPES = [np.dtype(t) for t in "? u1 i1 u2 i2 u4 i4 i8 f4 f8".split()]
# Floats more often, since most functions are for floats.
WEIGHTS = [3, 2, 2, 2, 2, 2, 4, 4, 8, 8]
NAMES = "abcdfghmuvwxyz"
PREDICATES = "isnan isinf isfinite signbit bool".split()
# The oracle's functions of one number, casts among them, and of two; pow takes only floats.
ONE = [name for name in FUNCTIONS if ARITIES.get(name, 1) == 1 and name not in PREDICATES]
TWO = [name for name in FUNCTIONS if ARITIES.get(name) == 2 and name != "pow"]
BOOLS = ["any", "all"]
ARITHMETIC = ["+", "-", "*", "/", "//", "%"]
COMPARISONS = ["<", "<=", ">", ">=", "==", "!="]
LITERALS = (
    "0 1 2 3 7 -1 -3 10 255 65535 2147483647 0.0 0.5 1.0 -2.0 1e-3 0.1 3.7 1e30 1e-40 1e300 "
    "pi e inf nan -inf 1e400 16777217 16777217.0"
).split()
# The lengths of arrays: short ones, for which Python takes most of the time, and one that is longer
# than a block of the interpreter.
LENGTHS = [0, 1, 3, 17, 33, 40, 64, 65]
LONG = 2500
GUARD, GUARD_BYTE = 64, 0xA5


@dataclass
class Writer:
    """Writes a random text of inputs."""

    random: random.Random
    inputs: dict[str, Any]
    # The share of numbers and bools that are reductions inside a formula.
    inside: float = 0
    # Reductions that it does not write.
    without: str = ""
    written: list[str] = field(default_factory=list)

    def names(self, bools: bool) -> list[str]:
        """Returns the inputs that are bools, or those that are numbers."""
        return [
            name
            for name, value in self.inputs.items()
            if (getattr(value, "dtype", None) == BOOL) == bools
        ]

    def joined(self, text: str) -> str:
        """Puts parentheses around a text, as a rule."""
        return f"({text})" if self.random.random() < 0.9 else text

    def number(self, size: int) -> str:
        """Writes a number of some operations."""
        pick = self.random.random()
        if size <= 0:
            return self.leaf(pick)
        if pick < 0.06 and self.written:
            return self.random.choice(self.written)
        if self.random.random() < self.inside:
            return self.reduction(size - 1, [name for name in REDUCTIONS if name not in BOOLS])
        if pick < 0.45:
            left = self.random.randrange(size)
            op = self.random.choice(ARITHMETIC)
            right = self.number(size - 1 - left)
            text = self.joined(f"{self.number(left)} {op} {right}")
        elif pick < 0.7:
            text = f"{self.random.choice(ONE)}({self.number(size - 1)})"
        elif pick < 0.8:
            half = (size - 1) // 2
            text = f"{self.random.choice(TWO)}({self.number(half)}, {self.number(half)})"
        else:
            text = self.rare(size - 1, self.random.random())
        self.written.append(text)
        return text

    def rare(self, size: int, pick: float) -> str:
        """Writes one of the rarer forms."""
        third = size // 3
        if pick < 0.1:
            return self.bits(size)
        if pick < 0.35:
            return f"where({self.truth(third)}, {self.number(third)}, {self.number(third)})"
        if pick < 0.5:
            return self.joined(f"-{self.joined(self.number(size))}")
        if pick < 0.7:
            exponents = "2 3 -1 -2 0.5 0 1 5 8 13 2.0 -3 64 1.0 -0.0 0.3 -1.5 65 pi".split()
            exponent = self.random.choice([*exponents, *self.names(bools=False)])
            return self.joined(f"({self.number(size)})**{exponent}")
        if pick < 0.8:
            name = self.random.choice(["fma", "clip"])
            return f"{name}({self.number(third)}, {self.number(third)}, {self.number(third)})"
        if pick < 0.9:
            to = self.random.choice(["f32", "f64"])
            return f"pow({to}({self.number(size // 2)}), {to}({self.number(size // 2)}))"
        if pick < 0.95:
            return self.joined(f"{self.truth(size // 2)} * {self.number(size // 2)}")
        return f"+{self.joined(self.number(size))}"

    def bits(self, size: int) -> str:
        """Writes an operation on the bits of integers."""
        if self.random.random() < 0.15:
            return f"~{self.joined(self.integer(size))}"
        op = self.random.choice(["&", "|", "^", "<<", ">>"])
        return self.joined(f"{self.integer(size // 2)} {op} {self.integer(size // 2)}")

    def integer(self, size: int) -> str:
        """Writes an integer of some operations, and now and then another number."""
        pick = self.random.random()
        names = [
            name for name, value in self.inputs.items() if np.asarray(value).dtype.kind in "iu"
        ]
        if names and pick < 0.5:
            return self.random.choice(names)
        if pick < 0.7:
            return self.random.choice("0 1 2 3 7 31 63 64 100 -1 -8 255".split())
        if pick < 0.75:
            return self.truth(size - 1)
        return f"{self.random.choice(['i32', 'i64'])}({self.number(size - 1)})"

    def leaf(self, pick: float) -> str:
        """Writes an input, or a literal."""
        names = self.names(bools=False)
        if names and pick < 0.8:
            return self.random.choice(names)
        return self.random.choice(LITERALS)

    def truth(self, size: int) -> str:
        """Writes a bool of some operations."""
        pick = self.random.random()
        if size > 0 and self.random.random() < self.inside:
            return self.reduction(size - 1, BOOLS)
        names = self.names(bools=True)
        if size <= 0 and names and pick < 0.7:
            return self.random.choice(names)
        half = size // 2
        if pick < 0.6 or size <= 0:
            parts = [self.number(half), self.random.choice(COMPARISONS), self.number(half)]
            if pick < 0.1:
                parts += [self.random.choice(COMPARISONS), self.number(half)]
            return self.joined(" ".join(parts))
        if pick < 0.85:
            return self.joined(f"{self.truth(half)} {self.random.choice('&|^')} {self.truth(half)}")
        if pick < 0.93:
            return f"~{self.joined(self.truth(size - 1))}"
        predicate = f"{self.random.choice(PREDICATES)}({self.number(size - 1)})"
        return self.random.choice(["True", "False", predicate, predicate])

    def text(self) -> str:
        """Writes a text."""
        size = min(int(self.random.expovariate(1 / 7)), 60)
        write = self.truth if self.random.random() < 0.15 else self.number
        return write(size) if self.random.random() > 0.3 else self.reduction(size, list(REDUCTIONS))

    def reduction(self, size: int, names: list[str]) -> str:
        """Writes one of these reductions, seldom of reductions."""
        name = self.random.choice([name for name in names if name not in self.without])
        inside, self.inside = self.inside, self.inside / 4
        write = self.truth if name in ("any", "all", "count") else self.number
        second = f", {self.number(size // 2)}" if name == "dot" else ""
        text = f"{name}({write(size)}{second})"
        self.inside = inside
        return text


def values(chance: np.random.Generator, dtype: np.dtype, n: int) -> np.ndarray:
    """Returns values of a type: any bits, special ones, small ones, and some that are equal."""
    if dtype == BOOL:
        return chance.integers(0, 2, n).astype(bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        plain = chance.integers(limits.min, limits.max, n, dtype, endpoint=True)
        small = chance.integers(max(limits.min, -9), 9, n, endpoint=True).astype(dtype)
        special = np.array([0, 1, limits.max, limits.min, limits.max - 1], dtype)
    else:
        bits = np.dtype(f"u{dtype.itemsize}")
        plain = chance.integers(0, np.iinfo(bits).max, n, bits, endpoint=True).view(dtype)
        small = (chance.integers(-40, 40, n) / 4).astype(dtype)
        special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan], dtype)
        limits = np.finfo(dtype)
        edges = [limits.max, limits.tiny, limits.smallest_subnormal, -limits.tiny, -limits.max]
        special = np.concatenate([special, np.array(edges, dtype)])
    normal = chance.normal(0, 30, n)
    normal = normal.astype(dtype) if dtype.kind != "u" else np.abs(normal).astype(dtype)
    choice = chance.choice(4, n, p=[0.2, 0.15, 0.25, 0.4])
    return np.choose(choice, [plain, chance.choice(special, n), small, normal]).astype(dtype)


def case(seed: int, index: int) -> tuple[str, dict[str, Any]]:
    """Returns the text and the inputs of a number."""
    chance = random.Random(f"{seed} {index}")
    data = np.random.default_rng([seed, index])
    n = LONG if chance.random() < 0.01 else chance.choice(LENGTHS)
    inputs: dict[str, Any] = {}
    for name in chance.sample(NAMES, chance.randint(1, 5)):
        dtype = chance.choices(DTYPES, WEIGHTS)[0]
        pick = chance.random()
        if pick < 0.1:
            inputs[name] = values(data, dtype, 1)[0]
        elif pick < 0.17:
            inputs[name] = chance.choice([0, 1, 3, -7, 0.5, -2.0, 1e-3, 1e300, 100])
        else:
            inputs[name] = values(data, dtype, n)
    count = chance.choice([1, 1, 1, 2, 3, 8])
    writer = Writer(chance, inputs, inside=chance.choice([0, 0, 0.1, 0.2]))
    return "; ".join(writer.text() for _ in range(count)), inputs


def check(text: str, inputs: dict[str, Any]) -> tuple[str, Optional[str]]:
    """Compares an expression with NumPy: returns the outcome, and what is wrong."""
    expected: Any
    try:
        expected = [evaluate(formula, inputs) for formula in text.split("; ")]
    except Undecided:
        return "undecided", None
    except Wrong as wrong:
        return "wrong", str(wrong)
    except Refused as refused:
        expected = refused
    except OverflowError:
        return "undecided", None
    refused = isinstance(expected, Refused)
    guarded = [] if refused else [Guarded(result) for result in expected]
    outs = tuple(each.out for each in guarded)
    try:
        gpuvec.evaluate(text, inputs, out=None if refused else outs if len(outs) > 1 else outs[0])
    except (gpuvec.Error, OverflowError, ValueError) as error:
        if refused:
            return "refused", None
        return "wrong", f"it is refused: {error}"
    if isinstance(expected, Unfit) and any(np.size(each) == 0 for each in inputs.values()):
        return "undecided", None
    if refused:
        return "wrong", f"it should be refused: {expected}"
    for each, result in zip(guarded, expected):
        outcome, message = compare(each.out, result)
        if outcome != "equal":
            return outcome, message
        if not each.is_intact():
            return "wrong", "memory around an output is written"
    return "equal", None


class Guarded:
    """An array for a result, between bytes that no call writes."""

    def __init__(self, result: np.ndarray):
        self.bytes = np.full(result.nbytes + 2 * GUARD, GUARD_BYTE, np.uint8)
        inside = self.bytes[GUARD : GUARD + result.nbytes].view(result.dtype)
        self.out = inside.reshape(result.shape)

    def is_intact(self) -> bool:
        """Returns whether the bytes around the array are as they were."""
        around = np.concatenate([self.bytes[:GUARD], self.bytes[self.bytes.size - GUARD :]])
        return bool((around == GUARD_BYTE).all())


def outcome(seed: int, index: int) -> str:
    """Returns the outcome of a number."""
    return check(*case(seed, index))[0]


def compare(got: np.ndarray, expected: np.ndarray) -> tuple[str, Optional[str]]:
    """Compares types, shapes and bits."""
    if (got.dtype, got.shape) != (expected.dtype, expected.shape):
        shown = [f"{each.dtype} of shape {each.shape}" for each in (got, expected)]
        return "wrong", f"it is {shown[0]}, and NumPy's is {shown[1]}"
    bits = np.dtype(f"u{got.itemsize}")
    got, expected = np.ascontiguousarray(got), np.ascontiguousarray(expected)
    different = np.flatnonzero(got.view(bits).ravel() != expected.view(bits).ravel())
    if different.size == 0:
        return "equal", None
    at = different[0]
    shown = f"{got.ravel()[at]!r}, and NumPy's is {expected.ravel()[at]!r}"
    return "wrong", f"element {at}, of {different.size} that differ, is {shown}"


def shrink(text: str, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Returns the smallest expression and data found that still fail."""

    def fails(text: str, inputs: dict[str, Any]) -> bool:
        try:
            return check(text, inputs)[0] == "wrong"
        except Exception:
            return False

    inputs = dict(inputs)
    shrinks = True
    while shrinks:
        smaller = next((each for each in shorter(text, inputs) if fails(each, inputs)), None)
        shrinks = smaller is not None
        text = smaller or text
    size = next((each.size for each in inputs.values() if isinstance(each, np.ndarray)), 0)
    for part in (slice(at, at + 1) for at in range(size)):
        sliced = {
            name: value[part] if isinstance(value, np.ndarray) else value
            for name, value in inputs.items()
        }
        if fails(text, sliced):
            inputs = sliced
            break
    for name in list(inputs):
        fewer = {other: value for other, value in inputs.items() if other != name}
        if fails(text, fewer):
            inputs = fewer
    return text, inputs


def shorter(text: str, inputs: dict[str, Any]) -> Iterator[str]:
    """Writes shorter texts: without a formula, or with a shorter one in its place."""
    formulas = text.split("; ")
    for at, formula in enumerate(formulas):
        before, after = formulas[:at], formulas[at + 1 :]
        if before or after:
            yield "; ".join([*before, *after])
        for each in shorter_formulas(formula, inputs):
            yield "; ".join([*before, each, *after])


def shorter_formulas(text: str, inputs: dict[str, Any]) -> Iterator[str]:
    """Writes shorter formulas: one with each node replaced by a part of it, or by an input."""
    tree = ast.parse(text, mode="eval")
    names = [ast.Name(name) for name in inputs]
    for parent in list(ast.walk(tree)):
        for name, value in list(ast.iter_fields(parent)):
            is_list = isinstance(value, list)
            holder = value if is_list else vars(parent)
            for key in range(len(value)) if is_list else [name]:
                node = holder[key]
                if not isinstance(node, ast.expr) or key == "func":
                    continue
                for part in [*list(ast.walk(node))[1:], *names]:
                    if isinstance(part, ast.expr):
                        holder[key] = part
                        replaced = ast.unparse(tree)
                        if len(replaced) < len(text):
                            yield replaced
                holder[key] = node


def report(seed: int, index: int) -> Optional[str]:
    """Describes what is wrong with the case of a number, as a program that shows it."""
    text, inputs = case(seed, index)
    outcome, message = check(text, inputs)
    if outcome != "wrong":
        return None
    small, data = shrink(text, inputs)
    lines = [f"seed {seed}, number {index}: {message}", f"    {text}"]
    lines += [
        f"smallest found: {check(small, data)[1]}",
        "    import gpuvec",
        "    import numpy as np",
    ]
    lines += [f"    {name} = {literal(value)}" for name, value in data.items()]
    named = ", ".join(f"{name}={name}" for name in data)
    return "\n".join([*lines, f"    gpuvec.evaluate({small!r}, {named})"])


def literal(value: Any) -> str:
    """Writes a value as Python, floats by their bits."""
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):
        return repr(value)
    array = np.asarray(value)
    if array.dtype.kind == "f":
        bits = array.view(f"u{array.itemsize}")
        text = f"np.array({bits.tolist()}, '{bits.dtype.name}').view('{array.dtype.name}')"
        text += f"  # {array.tolist()}" if array.size < 3 else ""
    else:
        text = f"np.array({array.tolist()}, '{array.dtype.name}')"
    return text if isinstance(value, np.ndarray) else text.replace("  #", "[()]  #")
