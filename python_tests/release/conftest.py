"""The files of a release, which `make test-wheel` makes."""

import os
import platform
import tarfile
import zipfile
from pathlib import Path

import pytest

# The processors of the release: `make dist PROCESSORS=…` makes the files of some.
PROCESSORS = os.environ.get("PROCESSORS", "x86_64 aarch64").split()


@pytest.fixture(scope="session")
def processors() -> list[str]:
    """The processors for which there are files."""
    return PROCESSORS


@pytest.fixture(params=PROCESSORS)
def processor(request) -> str:
    """Each of them."""
    return request.param


@pytest.fixture(scope="session")
def dist() -> Path:
    """The folder that GPUVEC_DIST names."""
    folder = os.environ.get("GPUVEC_DIST")
    return Path(folder) if folder else pytest.skip("make test-wheel makes the files of a release")


@pytest.fixture(scope="session")
def wheel(dist) -> dict:
    """The files of this processor's wheel, by name."""
    [path] = dist.glob(f"gpuvec-*_{platform.machine()}.whl")
    with zipfile.ZipFile(path) as files:
        return {name: files.read(name) for name in files.namelist()}


@pytest.fixture(scope="session")
def sdist(dist) -> dict:
    """The files of the source distribution, by their names without its folder's."""
    return unpacked(dist, "gpuvec-*.tar.gz")


@pytest.fixture(scope="session")
def archive(dist) -> dict:
    """The files of this processor's archive, by their names without its folder's."""
    return unpacked(dist, f"libgpuvec-*-{platform.machine()}.tar.gz")


def unpacked(dist: Path, pattern: str) -> dict:
    """Reads an archive; symbolic links are read through."""
    [path] = dist.glob(pattern)
    with tarfile.open(path) as files:
        members = [member for member in files if not member.isdir()]
        return {
            member.name.split("/", 1)[1]: files.extractfile(member).read() for member in members
        }
