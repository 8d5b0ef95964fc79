#!/usr/bin/env bash
# Tests the library for aarch64 in QEMU: C examples, the committed hashes of results, the loops' tests.
#
#     tools/test_aarch64.sh FOLDER        of the libgpuvec.so in a folder
#     tools/test_aarch64.sh FOLDER --all  with all tests of the library and of crates/math, in a quarter of an hour
#
# QEMU does one thing after another as a processor does, but for the order in which other threads see it.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath "$1")
export GPUVEC_LIB=$folder/libgpuvec.so GPUVEC_PLACEMENT=cpu

# A child that was forked while another thread held a mutex of QEMU's own waits for it forever, now and then.
tools/aarch64.sh make -C c_examples run header LIB="$folder" BUILD=../target/aarch64/c_examples \
    CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++ UNDER=qemu-aarch64 SKIPPED=threads_and_fork

corpus=target/aarch64/corpus
mkdir -p $corpus
# Made here, which takes QEMU long.
PYTHONPATH=python_tests/support .venv/bin/python -c "
from pathlib import Path
from corpus import KINDS, corpus
for kind in KINDS:
    corpus(kind).save(Path('$corpus'))"
tools/aarch64.sh python-aarch64 -c "from corpus_calls import check_all; check_all('$corpus')"
echo "the corpus of exact sums has the committed hashes"
tools/aarch64.sh python-aarch64 python_tests/support/result_hashes.py |
    diff python_tests/operations/results.sha256 -
echo "operations, functions and formulas have the committed hashes"

if [ "${2:-}" = --all ]; then
    tools/aarch64.sh cargo test --profile fast -p gpuvec -p gpuvec_exact -p gpuvec_expr -p gpuvec_ops --lib
    tools/aarch64.sh cargo test --profile fast -p gpuvec_math
else
    # Fewer random cases than on this processor.
    PROPTEST_CASES=16 tools/aarch64.sh cargo test --profile fast -p gpuvec --lib -- cpu:: process::
fi
