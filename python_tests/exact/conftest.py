"""Fixtures of the tests of exact sums."""

import ctypes
import shutil
from pathlib import Path

import pytest
from bindings import ROOT
from corpus import KINDS, corpus
from programs import run


@pytest.fixture(params=KINDS, ids=str)
def cases(request):
    """Provides the corpus of each kind in turn."""
    return corpus(request.param)


@pytest.fixture(scope="session")
def stored(tmp_path_factory):
    """Stores the corpora in a folder, for other processes."""
    folder = tmp_path_factory.mktemp("corpus")
    for kind in KINDS:
        corpus(kind).save(folder)
    return str(folder)


@pytest.fixture(scope="session")
def kernels_for_host(tmp_path_factory):
    """Compiles a C++ source of this folder, which includes kernels, to a library of the host."""

    def compiled(source: str, *flags: str) -> ctypes.CDLL:
        if shutil.which("c++") is None:
            pytest.skip("there is no C++ compiler")
        library = tmp_path_factory.mktemp("kernels") / "kernels.so"
        options = ["-O1", "-ffp-contract=off", "-shared", "-fPIC", "-I", ROOT / "kernels"]
        run(["c++", *options, *flags, Path(__file__).parent / source, "-o", library])
        return ctypes.CDLL(str(library))

    return compiled
