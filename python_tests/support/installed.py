"""The library as `make install` installs it, for tests of other projects that use it."""

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from bindings import ROOT, lib
from programs import library_environment, run

SONAME = f"libgpuvec.so.{lib.gpuvec_abi_version()}"
REAL_NAME = f"{SONAME}.{lib.gpuvec_version().decode()}"


@dataclass
class Installed:
    """The folders of an installed library."""

    prefix: Path
    libdir: Path

    def environment(self) -> dict:
        """Returns an environment in which pkg-config and the dynamic loader find the library."""
        return library_environment(
            PKG_CONFIG_PATH=str(self.libdir / "pkgconfig"), LD_LIBRARY_PATH=str(self.libdir)
        )

    def pkg_config(self, *options: str) -> list:
        """Returns the words that pkg-config prints for gpuvec."""
        return shlex.split(run(["pkg-config", *options, "gpuvec"], env=self.environment()))


def make(target: str, **variables) -> None:
    """Runs `make install`, `make uninstall` or another target with these variables."""
    done = making(target, **variables)
    assert done.returncode == 0, done.stdout + done.stderr


def making(target: str, tree: Path = ROOT, **variables) -> subprocess.CompletedProcess:
    """Runs a target of a source tree with these variables on make's command line."""
    words = [f"{name}={value}" for name, value in variables.items()]
    # Nothing of a `make` that runs these tests reaches this one.
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "-s", target, *words]
    return subprocess.run(command, cwd=tree, env=inherited, capture_output=True, text=True)


def needs(*commands: str) -> None:
    """Skips the test unless each command is there."""
    for command in commands:
        if not shutil.which(command):
            pytest.skip(f"{command} is not installed")
