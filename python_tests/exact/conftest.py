"""Fixtures of the tests of exact sums."""

import pytest
from corpus import KINDS, corpus


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
