"""Prints what a report of a defect needs: ``python -m gpuvec``."""

import os
import platform
from pathlib import Path

import numpy as np

import gpuvec


def processor() -> str:
    """Returns the CPU's name and its number of CPUs."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    name = next((line.split(": ")[1] for line in lines if line.startswith("model name")), "unknown")
    return f"{name}, {len(os.sched_getaffinity(0))} of {os.cpu_count()} CPUs"


def placement() -> str:
    """Returns the placement, or the error in its environment variable."""
    try:
        return gpuvec.get_placement()
    except gpuvec.Error as error:
        return str(error)


def facts() -> dict[str, str]:
    """Returns everything, by name."""
    devices = [gpuvec.device_name(i) for i in range(gpuvec.device_count())]
    variables = [f"{name}={value}" for name, value in os.environ.items() if is_relevant(name)]
    return {
        "gpuvec": f"{gpuvec.version()}, binary interface {gpuvec.abi_version()}",
        "library": gpuvec.library_path(),
        "placement": placement(),
        "GPUs": ", ".join(devices) or "none",
        "why CPU": gpuvec.why_cpu() or "a GPU is usable",
        "environment": " ".join(sorted(variables)) or "none of GPUVEC_*, CUDA_*",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "NumPy": np.__version__,
        "system": f"{platform.platform()}, {' '.join(platform.libc_ver())}",
        "CPU": processor(),
    }


def is_relevant(variable: str) -> bool:
    """Returns whether an environment variable affects the library or the driver."""
    return variable.startswith(("GPUVEC_", "CUDA_"))


if __name__ == "__main__":
    for name, fact in facts().items():
        print(f"{name + ':':13}{fact}")
