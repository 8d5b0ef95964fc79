"""The library as `make install` installs it, for tests of other projects that use it."""

import os
import shutil
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
        return run(["pkg-config", *options, "gpuvec"], env=self.environment()).split()


def make(target: str, **folders) -> None:
    """Runs `make install` or `make uninstall` with the folders."""
    words = [f"{name}={folder}" for name, folder in folders.items()]
    # Nothing of a `make` that runs these tests reaches this one.
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    run(["make", "-s", target, *words], cwd=ROOT, env=inherited)


def needs(*commands: str) -> None:
    """Skips the test unless each command is there."""
    for command in commands:
        if not shutil.which(command):
            pytest.skip(f"{command} is not installed")
