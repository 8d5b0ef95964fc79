"""The formulas that expressions are measured with, in the languages of all contenders."""

import re
from dataclasses import dataclass

K = "(1 / (1 + 0.2316419 * {x}))"
POLYNOMIAL = (
    "({k} * (0.31938153 + {k} * (-0.356563782 + {k} * (1.781477937"
    " + {k} * (-1.821255978 + {k} * 1.330274429)))))"
)

LITERAL = re.compile(r"(?<![\w.])(\d+\.?\d*)(?![\w.])")
FUNCTION = re.compile(r"\b(sqrt|exp|log|sin|abs)\(")

# The types of C and of the header, and the suffix of C's literals and functions.
TYPES = {"f32": ("float", "GPUVEC_F32", "f"), "f64": ("double", "GPUVEC_F64", "")}


def normal_distribution(x: str) -> str:
    """Returns the normal distribution, by the series of Abramowitz and Stegun (26.2.17)."""
    series = POLYNOMIAL.format(k=K.format(x=f"abs({x})"))
    tail = f"(0.39894228 * exp({x} * {x} * -0.5) * {series})"
    return f"where({x} < 0, {tail}, 1 - {tail})"


def black_scholes() -> str:
    """Returns the price of a call option, for the price a, the strike b and the time c."""
    d1 = "((log(a / b) + 0.065 * c) / (0.3 * sqrt(c)))"
    d2 = f"({d1} - 0.3 * sqrt(c))"
    return f"a * {normal_distribution(d1)} - b * exp(-0.02 * c) * {normal_distribution(d2)}"


def horner(terms: int) -> str:
    """Returns a polynomial, of two operations for each term."""
    text = "0.5"
    for i in range(terms):
        text = f"({text}) * a + {0.1 + 0.01 * i:.2f}"
    return text


@dataclass(frozen=True)
class Formula:
    """A formula of up to four arrays: a, b, c and d."""

    name: str
    text: str

    @property
    def inputs(self) -> list[str]:
        """The names of its arrays."""
        return sorted(set(re.findall(r"\b[a-d]\b", self.text)))

    def in_c(self, dtype: str) -> str:
        """Returns the formula in C, with a macro `where`."""
        suffix = TYPES[dtype][2]
        text = LITERAL.sub(lambda match: f"{float(match[1])}{suffix}", self.text)
        return FUNCTION.sub(rf"\1{suffix}(", text).replace("abs", "fabs")

    def with_constants(self, scalar: type) -> tuple[str, dict]:
        """Returns the text with names in place of its numbers, and their values of one type."""
        values = {}

        def name(match: re.Match) -> str:
            key = "k" + re.sub(r"\W", "_", match[1])
            values[key] = scalar(float(match[1]))
            return key

        return LITERAL.sub(name, self.text), values


ELEMENTWISE = [
    Formula("1 op", "a + b"),
    Formula("3 ops", "a * b + c * d"),
    Formula("8 ops", "(a + b) * (c - d) + (a - c) * (b + d) - a * 0.5"),
    Formula("20 ops", horner(10)),
    Formula(
        "24 ops",
        "where(a < b, (a + b) * c - d, (a - b) * c + d) / (c + 0.5)"
        " + (a * b - c * d) * (a + d) - (b + c) * 0.125 + (a - d) * (b - 0.5) * c",
    ),
    Formula("sqrt", "sqrt(a * a + b * b)"),
    Formula("exp", "exp(a)"),
    Formula("log", "log(a)"),
    Formula("sin", "sin(a)"),
    Formula("logistic", "1 / (1 + exp(-1 * a))"),
    Formula("Black-Scholes", black_scholes()),
]

REDUCTIONS = [
    *(Formula(name, f"{name}(a)") for name in ("sum", "mean", "norm", "min", "max", "argmin")),
    Formula("dot", "dot(a, b)"),
    Formula("count", "count(a < b)"),
    Formula("sum of 3 ops", "sum(a * b + c * d)"),
    Formula("sum of sqrt", "sum(sqrt(a * a + b * b) * c)"),
]


def named(name: str) -> Formula:
    """Returns the formula of that name."""
    return next(one for one in [*ELEMENTWISE, *REDUCTIONS] if one.name == name)
