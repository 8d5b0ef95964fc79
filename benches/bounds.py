"""Finds the ceiling that bounds a case, and the time that the case would take at it."""

from typing import NamedTuple, Optional

# Below this total size arrays may stay in the cores' caches, and memcpy's rate is not a bound.
BEYOND_CACHES = 512 << 20


class Bound(NamedTuple):
    """The minimum time of a case in microseconds, and the ceiling's name."""

    us: float
    why: str


def value(ceilings: dict, name: str) -> Optional[float]:
    """Returns a ceiling's figure; None if it was not measured."""
    return ceilings[name]["value"] if name in ceilings else None


def size_of(dtype: str) -> int:
    """Returns the element size in bytes."""
    return {"f32": 4, "f64": 8}[dtype]


def transfers(case: dict, ceilings: dict) -> Optional[Bound]:
    """Bounds a case on host arrays by the bus."""
    size = case["n"] * size_of(case["dtype"])
    if case["op"] == "dot":
        rate = value(ceilings, "to_device")
        return rate and Bound(2 * size / rate / 1e3, "to_device")
    rate = value(ceilings, "two_in_one_out")
    return rate and Bound(size / 4 / rate / 1e3, "two_in_one_out")


def device_memory(case: dict, ceilings: dict) -> Optional[Bound]:
    """Bounds a case on device arrays by device memory."""
    size = case["n"] * size_of(case["dtype"])
    name = f"fma_dot_{case['dtype']}" if case["op"] == "dot" else "device_copy"
    rate = value(ceilings, name)
    return rate and Bound((2 if case["op"] == "dot" else 3) * size / rate / 1e3, name)


def of_gpu(case: dict, ceilings: dict) -> Optional[Bound]:
    """Bounds a case on a GPU by memory or bus, and by a launch."""
    of_bytes = (device_memory if case["kind"] == "device" else transfers)(case, ceilings)
    launch = value(ceilings, "launch_synchronize")
    if not of_bytes or not launch:
        return None
    return max(of_bytes, Bound(launch, "launch_synchronize"))


def of_cpu(case: dict, ceilings: dict) -> Optional[Bound]:
    """Bounds a case on the cores: memcpy moves each byte twice, an add three arrays, a dot two."""
    rate = value(ceilings, "memcpy_cores")
    moved = (2 if case["op"] == "dot" else 3) * case["n"] * size_of(case["dtype"])
    if moved < BEYOND_CACHES:
        return None
    return rate and Bound(moved / (2 * rate) / 1e3, "memcpy_cores")


def bound(case: dict, on_gpu: bool, ceilings: dict) -> Optional[Bound]:
    """Returns the bound of a case, if its ceiling was measured."""
    return (of_gpu if on_gpu else of_cpu)(case, ceilings)
