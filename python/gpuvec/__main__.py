"""Prints the information that a bug report needs: ``python -m gpuvec``."""

import os
import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np

import gpuvec


def processor() -> str:
    """Returns the CPU's name and its number of CPUs."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    name = next((line.split(": ")[1] for line in lines if line.startswith("model name")), "unknown")
    return f"{name}, {len(os.sched_getaffinity(0))} of {os.cpu_count()} CPUs"


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


def facts() -> dict[str, str]:
    """Returns everything, by name."""
    variables = [f"{name}={value}" for name, value in os.environ.items() if is_relevant(name)]
    return {
        "gpuvec": f"{gpuvec.version()}, binary interface {gpuvec.abi_version()}",
        "library": gpuvec.library_path(),
        "placement": answer(gpuvec.get_placement),
        "threads": answer(lambda: str(gpuvec.get_num_threads())),
        "GPUs": answer(devices),
        "why CPU": gpuvec.why_cpu() or "a GPU is usable",
        "environment": " ".join(sorted(variables)) or "none of GPUVEC_*, CUDA_*, OMP_*",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "NumPy": np.__version__,
        "system": f"{platform.platform()}, {' '.join(platform.libc_ver())}",
        "CPU": processor(),
    }


def is_relevant(variable: str) -> bool:
    """Returns whether an environment variable affects the library or the driver."""
    return variable.startswith(("GPUVEC_", "CUDA_", "OMP_"))


if __name__ == "__main__":
    for name, fact in facts().items():
        print(f"{name + ':':13}{fact}")
