"""Results have the committed bits, which no processor and no version changes."""

from result_hashes import HASHES, lines


def test_results_have_the_committed_hashes(placement):
    assert list(lines()) == HASHES.read_text().splitlines()
