"""Prints the information that a bug report needs: ``python -m gpuvec``."""

import os
import platform
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

import gpuvec

# The environment variables that affect the library or the driver.
RELEVANT = ("GPUVEC_*", "CUDA_*", "NVTX_*", "OMP_*")
# The number of calls that measure each rate, and the lengths of their arrays.
CALLS = 10
LENGTHS = (10_000, 1_000_000, 10_000_000)


def processor() -> str:
    """Returns the CPU's name."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), "unknown")


def cpus() -> str:
    """Returns the number of CPUs that this process may use: by its affinity, and by its quota."""
    allowed = f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} by affinity"
    quotas = list(quotas_of_groups())
    return f"{allowed}, {min(quotas):g} by the control group's quota" if quotas else allowed


def quotas_of_groups() -> Iterator[float]:
    """Yields the CPU quotas of the process's control groups and of all groups above them."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = Path("/sys/fs/cgroup", "cpu" if controllers else "")
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(root):
                yield from quota(folder)


def quota(group: Path) -> Iterator[float]:
    """Yields the CPU quota of a control group, of either version, if it has one."""
    try:
        if (group / "cpu.max").exists():
            limit, period = (group / "cpu.max").read_text().split()
        else:
            limit = (group / "cpu.cfs_quota_us").read_text()
            period = (group / "cpu.cfs_period_us").read_text()
    except OSError:
        return
    if limit.strip() not in ("max", "-1"):
        yield int(limit) / int(period)


def answer(question: Callable[[], str]) -> str:
    """Returns the answer to a question, or the error, for example of an environment variable."""
    try:
        return question()
    except gpuvec.Error as error:
        return str(error)


def devices() -> str:
    """Returns the names of the GPUs."""
    names = [gpuvec.device_name(device) for device in range(gpuvec.device_count())]
    return ", ".join(names) or "none"


def driver() -> str:
    """Returns the version of NVIDIA's kernel module."""
    version = Path("/proc/driver/nvidia/version")
    return version.read_text().splitlines()[0].strip() if version.exists() else "not loaded"


def rate(n: int) -> str:
    """Adds arrays of n elements a few times; returns how fast, and what the library expects."""
    a, out = np.ones(n, np.float32), np.empty(n, np.float32)
    times = []
    for _ in range(CALLS):
        begin = perf_counter()
        gpuvec.add(a, a, out)
        times.append(perf_counter() - begin)
    run, best = gpuvec.last_run(), min(times)
    expected = (f"{choice} {ms:.3g} ms" for choice, ms in run.predicted.items())
    predicted = "; predicted: " + ", ".join(expected) if run.predicted else ""
    speed = 3 * a.nbytes / best / 1e9
    return f"{best * 1e3:.3g} ms, {speed:.3g} GB/s, {run.choice} ({run.reason}){predicted}"


def held() -> str:
    """Returns the memory that the library holds after these calls."""
    memory = gpuvec.memory()
    return (
        f"{memory.pinned:,} bytes pinned, {memory.device:,} on GPUs, "
        f"{memory.registered:,} registered; {memory.modules} kernels loaded"
    )


def chosen_device() -> str:
    """Returns the GPU that works on host arrays."""
    device = gpuvec.get_device()
    return "all" if device is None else str(device)


def facts() -> dict[str, str]:
    """Returns the lines of the report, by name."""
    prefixes = tuple(pattern.rstrip("*") for pattern in RELEVANT)
    relevant = (name for name in sorted(os.environ) if name.startswith(prefixes))
    variables = [f"{name}={os.environ[name]}" for name in relevant]
    return {
        "gpuvec": f"{gpuvec.version()}, binary interface {gpuvec.abi_version()}",
        "library": gpuvec.library_path(),
        "placement": answer(gpuvec.get_placement),
        "threads": answer(lambda: str(gpuvec.get_num_threads())),
        "device": answer(chosen_device),
        "GPUs": answer(devices),
        "driver": driver(),
        "why CPU": gpuvec.why_cpu() or "a GPU is usable",
        **{f"add {n:,}": answer(partial(rate, n)) for n in LENGTHS},
        "memory": answer(held),
        "environment": " ".join(variables) or f"none of {', '.join(RELEVANT)}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "NumPy": np.__version__,
        "system": f"{platform.platform()}, {' '.join(platform.libc_ver())}",
        "CPU": processor(),
        "CPUs": cpus(),
    }


if __name__ == "__main__":
    for name, fact in facts().items():
        print(f"{name + ':':16}{fact}")
