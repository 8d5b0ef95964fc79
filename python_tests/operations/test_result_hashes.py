"""Results have the committed bits, which no processor and no version changes."""

from result_hashes import HASHES, lines


def test_results_have_the_committed_hashes(placement):
    """A difference is a defect, but for a result without a hash, which is new."""
    found = {name: bits for bits, name in (line.split("  ", 1) for line in lines())}
    committed = dict(line.split("  ", 1)[::-1] for line in HASHES.read_text().splitlines())
    changed = [name for name in found.keys() & committed.keys() if found[name] != committed[name]]
    assert not changed, "the bits of these results changed"
    new, gone = found.keys() - committed.keys(), committed.keys() - found.keys()
    assert not new, "run `make baselines`, which adds the hashes of these results"
    assert not gone, "these results have a hash, but do not exist"
    assert list(found) == list(committed), "run `make baselines`, which sorts the hashes"
