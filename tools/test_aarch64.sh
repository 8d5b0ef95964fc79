#!/usr/bin/env bash
# Tests the library for aarch64 in QEMU: C examples, the committed hashes of results, the loops' tests.
#
#     tools/test_aarch64.sh FOLDER        of the libgpuvec.so in a folder
#     tools/test_aarch64.sh FOLDER --all  with all Rust tests but those of PTX: a quarter of an hour on two busy cores,
#                                         and five minutes where everything is built
#
# QEMU does one thing after another as a processor does, but for the order in which other threads see it.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath "$1")
export GPUVEC_LIB=$folder/libgpuvec.so GPUVEC_PLACEMENT=cpu

# A child that was forked while another thread held a mutex of QEMU's own waits for it forever, now and then.
tools/aarch64.sh make -C c_examples run header LIB="$folder" BUILD=../target/aarch64/c_examples \
    CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++ UNDER=qemu-aarch64 SKIPPED=threads_and_fork

tools/test_hashes.sh tools/aarch64.sh python-aarch64

if [ "${2:-}" = --all ]; then
    # Without those of PTX, which take nine minutes: they emulate a GPU, and its texts are the same on any processor.
    tools/aarch64.sh cargo test --profile fast --workspace --exclude gpuvec_python --exclude gpuvec_ptx --lib --tests
else
    # Fewer random cases than on this processor.
    PROPTEST_CASES=16 tools/aarch64.sh cargo test --profile fast -p gpuvec --lib -- cpu:: process::
fi
