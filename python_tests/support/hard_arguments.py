"""Arguments on which functions of f64 lose most bits: angles, bounds, and worst cases."""

import math
from pathlib import Path

import numpy as np
from hard_angles import near_multiples

MATH = Path(__file__).resolve().parents[2] / "crates" / "math"
# The multiples of π/2 at which a function is zero or infinite: odd (True) or even ones (False).
ANGLES = {"sin": (False,), "cos": (True,), "tan": (False, True)}
PAIRS = {"atan2", "hypot", "pow"}
EXPONENTS = range(-1074, 1024)

# Arguments of the greatest errors that random searches found, starting from the worst of many
# points. The last ones are worst cases for correct rounding (Lefèvre and Muller).
WORST = {
    "exp": [
        "-0x1.627616da9fe9p+9",
        "0x1.cb8e7c193bdb3p+7",
        "-0x1.a427b0fead58p+2",
        "0x1.9e9cbbfd6080bp-31",
        "-0x1.ed318efb627eap-27",
    ],
    "exp2": [
        "-0x1.ff7cd94007331p+9",
        "-0x1.09cb7e6a82c0dp+6",
        "-0x1.35cb7e6a82c0dp+6",
        "-0x1.9dcb7e6a82c0dp+6",
        "-0x1.99cb7e6a82c0dp+6",
        "-0x1.c1cb7e6a82c0dp+6",
        "0x1.e4596526bf94dp-10",
    ],
    "expm1": [
        "0x1.843482fb69654p-2",
        "0x1.6f5ea616ffebap-2",
        "0x1.76870a8752eccp-2",
        "0x1.863cd236e5ccep-2",
    ],
    "sinh": [
        "0x1.646b4c968284cp-2",
        "0x1.7a4c0c7881d2bp-2",
        "0x1.7e6d0fa21d164p-2",
        "0x1.7666d965827ebp-2",
        "0x1.dfffffffffe3ep-20",
    ],
    "cosh": [
        "-0x1.a834c34c6b0f3p+5",
        "0x1.86ef5cce5e10ep+5",
        "0x1.13b610191fd8bp+9",
        "0x1.ea5f2f2e4b0c5p+1",
    ],
    "tanh": [
        "0x1.666bef6131d6fp-2",
        "0x1.7666d712947c2p-2",
        "-0x1.643bfb79075e4p-2",
        "-0x1.73c1de4535732p-2",
    ],
    "log": [
        "0x1.67045d08ec3cfp+0",
        "0x1.5aefb94068cf5p-1",
        "0x1.47b22b4b34765p+0",
        "0x1.62a88613629b6p+678",
    ],
    "log2": [
        "0x1.66e80550c8d01p+0",
        "0x1.6906faba00c4fp+0",
        "0x1.5ffcb9d47f6fdp+0",
        "0x1.673777968c9a7p+0",
        "0x1.b4ebe40c95a01p+0",
        "0x1.61555f75885b4p+128",
    ],
    "log10": [
        "0x1.54988d300935bp+0",
        "0x1.53997068346e3p+0",
        "0x1.54eeafcdfb329p+0",
        "0x1.5b542682f2aa7p-1",
        "0x1.e12d66744ff81p+429",
    ],
    "log1p": [
        "0x1.9f759c5129714p-2",
        "0x1.9fa6a4595f3f4p-2",
        "-0x1.2dd21cee91bdap-2",
        "0x1.8f5764f1da033p-2",
        "0x1.fffffffffffffp-53",
        "0x1.ab50b409c8aeep+8",
    ],
    "sin": [
        "0x1.89e5e25d8b697p-1",
        "0x1.aa788cd6d4344p+8",
        "-0x1.47ce390fd48ddp+11",
        "0x1.337bbed9a202cp+9",
        "0x1.e0000000001c2p-20",
        "0x1.598bae9e632f6p-7",
        "0x1.fe767739d0f6dp-2",
    ],
    "cos": [
        "0x1.8f9563b189689p-1",
        "-0x1.0976eeaa101c5p+7",
        "-0x1.cdfa09700b751p+6",
        "0x1.4d02421c87558p+5",
        "0x1.8000000000009p-23",
        "0x1.06b505550e6b2p-9",
    ],
    "tan": [
        "-0x1.8b72aeb1e0b5bp+9",
        "0x1.4b7028e8f7f93p+7",
        "0x1.5d02e59d4ec98p+11",
        "0x1.17367d7846bd8p+9",
        "0x1.88813a25e4d98p+10",
        "0x1.65c05c53ac94ep+9",
        "0x1.dffffffffff1fp-22",
    ],
    "asin": [
        "0x1.041c22549334fp-1",
        "0x1.1cdcf675ff0ddp-1",
        "-0x1.1d6d7b8a132f1p-1",
    ],
    "acos": [
        "0x1.1663d3c2f0924p-1",
        "0x1.19feb15e775ccp-1",
        "0x1.1fe5174ae2731p-1",
        "0x1.fd737be914578p-11",
        "0x1.53ea6c7255e88p-4",
    ],
    "atan": [
        "0x1.a915de0fb63c3p-2",
        "-0x1.aeb233fe93963p-2",
        "0x1.ad6116b40a9fcp-2",
        "-0x1.96f010ec5d552p-2",
        "0x1.d01bc15e6c6ep-2",
        "0x1.6298b5896ed3cp+1",
    ],
    "asinh": [
        "0x1.5ff99526b48a4p-2",
        "-0x1.63813dbb10d51p-2",
        "0x1.2616d45339040p+0",
        "0x1.69003d8732337p+10",
        "0x1.f11379a0edbb7p-5",
    ],
    "acosh": [
        "0x1.0e3659c89235ep+0",
        "0x1.0802be3fbddf2p+0",
        "0x1.09ac152c14a6fp+0",
        "0x1.972a9e77c92f8p+0",
        "0x1.67ce2a892c23cp+4",
    ],
    "atanh": [
        "-0x1.5f3285b99e215p-3",
        "0x1.5dc2e07da0825p-3",
        "0x1.6a190c6938d87p-4",
        "0x1.b8768823a55e5p-3",
        "0x1.64f84a6edc71bp-1",
    ],
    "erf": [
        "0x1.192b183f673eep+0",
        "-0x1.27c6300db23d9p+0",
        "0x1.1afcaf14a8754p+0",
        "-0x1.3378c5d1d0a8dp+0",
    ],
    "cbrt": [
        "0x1.6ef1168c85061p+0",
        "0x1.acd5a5fbb54f8p+1",
        "-0x1.1f42669d233b8p+10",
    ],
    "atan2": [
        "-0x1.b15af0b079c6dp-1013 0x1.73569c55a771dp+8",
        "0x1.0c000003d098p-1010 0x1.2c6a05c9c1707p+10",
        "-0x1.59f48328dac8ap-1012 0x1.926a35fa4364p+8",
        "-0x1.4c34ce49aece7p-1012 0x1.96624987ed69dp+8",
    ],
    "hypot": [
        "0x1p+243 -0x1p+217",
        "0x1p+241 -0x1p+215",
        "0x1p+245 -0x1p+219",
    ],
    "pow": [
        "0x1.3be4bf560a065p+30 -0x1.0e0189cce3a94p+5",
        "0x1.040044d59ef3ep-292 0x1.c0441c2052d69p+1",
        "0x1.f84f92bf1671ap+568 -0x1.cbe1d1fc3d9fap+0",
        "0x1.f0018d8817b2cp-293 0x1.c053313b4bf9p+1",
    ],
}

# Arguments of greater errors, found later by tools/function_errors.py: crates/math/tests/hard lacks
# them, as the hashes of tests/frozen.rs are of those that it has.
GREATEST = {
    "exp": ["-0x1.62612aac63f44p+9"],
    "exp2": ["-0x1.ff3fffffff8aep+9"],
    "expm1": ["0x1.843abe5d711dfp-2"],
    "log": ["0x1.683135546c1e1p+0"],
    "log2": ["0x1.66c9ffabeba91p+0"],
    "log10": ["0x1.53fade9ed8873p+0"],
    "log1p": ["0x1.a057c49a4874cp-2"],
    "sin": ["0x1.aa788cd79adb2p+8"],
    "cos": ["0x1.09769c5632d72p+7"],
    "tan": ["-0x1.b5dd047498376p+9"],
    "asin": ["0x1.04b83da624289p-1"],
    "acos": ["0x1.164c685a66489p-1"],
    "atan": ["-0x1.bc3fabe8b0309p-2"],
    "sinh": ["-0x1.6314afd48f381p-2"],
    "tanh": ["0x1.7667b93764825p-2"],
    "hypot": ["0x0.f5501b60a872fp-1022 -0x0.00004b73bab28p-1022"],
    "pow": ["0x1.3be61302c91b4p+30 -0x1.0de786a6dbef1p+5"],
}


def angles(parities: tuple, count: int) -> list:
    """Returns the doubles of each binade from ½ on that are nearest to multiples of π/2."""
    return [
        x
        for exponent in range(-1, 1024)
        for is_odd in parities
        for x, _ in near_multiples(exponent, is_odd, count)
    ]


def with_neighbours(points: list) -> np.ndarray:
    """Returns points, the doubles next to them, and the negatives of all."""
    middle = np.array(points)
    with np.errstate(over="ignore"):
        near = np.concatenate([np.nextafter(middle, 0), middle, np.nextafter(middle, np.inf)])
    return np.concatenate([near, -near])


def binade_ends() -> np.ndarray:
    """Returns the powers of two, from the least subnormal on, and their neighbours."""
    return with_neighbours([math.ldexp(1, exponent) for exponent in EXPONENTS])


def bounds() -> np.ndarray:
    """Returns points where a function changes its reduction or its polynomial, or overflows."""
    points = [0.0, 0.5, 0.6875, 1.0, 6.0, 22.0, 709.78, 710.4758, 745.0, 1e22, 1e308]
    points += [math.tan(k * math.pi / 8) for k in (1, 3)]
    points += [math.sqrt(2) * 2.0**e for e in range(-60, 60)]
    points += [math.sqrt(2) * 2.0**e - 1 for e in range(60)]
    points += [k * math.pi / 4 for k in range(1, 400)]
    points += [k * math.log(2) / 2 for k in range(1, 2100)]
    points += [k / 2 for k in range(1, 2150)]
    points += [10.0**e for e in range(-308, 309)]
    return with_neighbours(points)


def hard_arguments(name: str, angle_count: int = 2) -> np.ndarray:
    """Returns a function's hard arguments as rows."""
    random = np.random.default_rng(17)
    first = [binade_ends(), bounds()]
    first += [random.uniform(1, 2, 2 * 2098) * np.repeat(2.0 ** np.array(EXPONENTS), 2)]
    if name in ANGLES:
        found = np.array(angles((False, True), angle_count))
        first += [found, -found]
    columns = np.concatenate(first)
    rows = companions(name, random, columns) if name in PAIRS else [columns]
    return np.concatenate([_rows(WORST[name]), np.stack(rows, axis=1)])


def worst_arguments(name: str) -> np.ndarray:
    """Returns a function's worst cases as rows."""
    return _rows(GREATEST.get(name, []) + WORST[name])


def _rows(cases: list) -> np.ndarray:
    """Returns arguments as rows of numbers."""
    return np.array([[float.fromhex(x) for x in case.split()] for case in cases])


def proved_bounds() -> dict:
    """Returns the bounds of the errors of functions of f64 that `make function-bounds` proves."""
    rows = (MATH / "tests" / "hard" / "bounds.txt").read_text().splitlines()
    return {name: float(limit) for name, limit in map(str.split, rows)}


def listed_arguments(path: Path) -> np.ndarray:
    """Returns the arguments in a file of CORE-MATH's worst cases as rows.

    A line has one case: numbers with commas between them, mostly hexadecimal, and a comment.
    """
    lines = (line.split("#")[0].replace("snan", "nan") for line in path.read_text().splitlines())
    return np.array([[float.fromhex(x) for x in line.split(",")] for line in lines if line.strip()])


def companions(name: str, random: np.random.Generator, first: np.ndarray) -> list:
    """Returns pairs, most with results that are neither zero nor infinite."""
    n = len(first)
    size = np.abs(first)

    def mostly(share, values, others):
        return np.where(random.random(n) < share, values, others)

    with np.errstate(all="ignore"):
        if name == "pow":
            # Results of all magnitudes, and small whole powers.
            second = random.uniform(-1080, 1030, n) / np.log2(size)
            second = mostly(0.8, second, random.permutation(first))
            return [size, mostly(0.9, second, random.integers(-20, 20, n))]
        close = first * random.choice([-1, 1], n) * 2.0 ** random.uniform(-60, 60, n)
        return [first, mostly(0.7, close, random.permutation(first))]
