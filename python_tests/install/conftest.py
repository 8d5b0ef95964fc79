"""Fixtures: the installed library, in a prefix that was moved and in a stage."""

import os

import pytest
from installed import Installed, make, needs


@pytest.fixture(scope="session")
def moved(tmp_path_factory):
    """A prefix of the default layout, moved after `make install`."""
    needs("make")
    folder = tmp_path_factory.mktemp("install")
    make("install", PREFIX=folder / "built")
    os.rename(folder / "built", folder / "moved")
    return Installed(folder / "moved", folder / "moved/lib")


@pytest.fixture(scope="session")
def staged(tmp_path_factory):
    """A stage of a package with Debian's layout: nothing is where its files will be."""
    needs("make")
    stage = tmp_path_factory.mktemp("stage")
    make("install", PREFIX="/usr", LIBDIR="/usr/lib/x86_64-linux-gnu", DESTDIR=stage)
    return Installed(stage / "usr", stage / "usr/lib/x86_64-linux-gnu")


@pytest.fixture(params=["moved", "staged"])
def installed(request):
    """Each of the two."""
    return request.getfixturevalue(request.param)
