"""The corpus of exact sums has the committed bits wherever and however the library computes it."""

import os
import platform

import pytest
from bindings import Place, placed
from corpus_calls import MEMORY, check, results
from on_fake_driver import needs_fake_driver
from on_fake_driver import run as run_on_fake_driver
from programs import run_python

# The sets of vector instructions, as GPUVEC_VECTORS has them.
VECTORS = ["portable", "avx2", "avx512"] if platform.machine() == "x86_64" else ["portable"]
CHECK = "from corpus_calls import check_all\ncheck_all({folder!r}, {kinds!r}, {streams})"


@pytest.mark.parametrize("kinds", MEMORY, ids=",".join)
def test_memory_of_every_kind(placement, cases, kinds):
    check(cases, results(cases, kinds))


def test_cores_and_gpus_together(cases):
    with placed(Place.ALL):
        check(cases, results(cases, ("pinned",) * 3))


@pytest.mark.parametrize("kinds", [("pinned",) * 3, ("device",) * 3, MEMORY[-2]], ids=",".join)
def test_queued_on_streams(placement, cases, kinds):
    check(cases, results(cases, kinds, streams=3))


@pytest.mark.parametrize("threads", sorted({1, 2, 5, os.cpu_count() or 1}))
def test_any_number_of_threads(stored, threads):
    script = CHECK.format(folder=stored, kinds=("pageable",) * 3, streams=0)
    run_python(script, GPUVEC_PLACEMENT="cpu", GPUVEC_NUM_THREADS=str(threads))


@pytest.mark.parametrize("vectors", VECTORS)
def test_every_version_of_the_vector_code(stored, vectors):
    """A processor that lacks the instructions takes the best version that it has."""
    script = CHECK.format(folder=stored, kinds=("pageable",) * 3, streams=0)
    run_python(script, GPUVEC_PLACEMENT="cpu", GPUVEC_VECTORS=vectors)


@needs_fake_driver
@pytest.mark.parametrize("kinds", [("pinned",) * 3, MEMORY[-1]], ids=",".join)
def test_several_gpus(stored, kinds):
    script = CHECK.format(folder=stored, kinds=kinds, streams=0)
    run_on_fake_driver(script, variables={"GPUVEC_PLACEMENT": "gpu"}, DEVICES=3)
