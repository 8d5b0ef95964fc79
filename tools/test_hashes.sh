#!/usr/bin/env bash
# Tests that the library of GPUVEC_LIB has the committed hashes of results, in the Python of another system.
#
#     GPUVEC_LIB=FILE tools/test_hashes.sh PYTHON...      a command that runs it, with NumPy and gmpy2
set -euo pipefail
cd "$(dirname "$0")/.."

corpus=target/corpus
mkdir -p $corpus
# Made here, which takes QEMU long.
PYTHONPATH=python_tests/support .venv/bin/python -c "
from pathlib import Path
from corpus import KINDS, corpus
for kind in KINDS:
    corpus(kind).save(Path('$corpus'))"
"$@" -c "from corpus_calls import check_all; check_all('$corpus')"
echo "the corpus of exact sums has the committed hashes"
"$@" python_tests/support/result_hashes.py | diff python_tests/operations/results.sha256 -
echo "operations, functions and formulas have the committed hashes"
