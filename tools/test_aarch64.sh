#!/usr/bin/env bash
# Tests the library for AArch64 in QEMU: C examples, the committed hashes of results, the loops' tests.
#
#     tools/test_aarch64.sh               builds the library as the Rust tests are built
#     tools/test_aarch64.sh FOLDER        tests the libgpuvec.so in a folder, and runs all Rust tests but those of PTX:
#                                         a quarter of an hour on two busy cores, five minutes where all is built
#
# QEMU executes each thread as a processor does, but threads do not see stores in another order.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -eq 0 ]; then
    tools/aarch64.sh cargo build --profile fast -p gpuvec --lib
fi
folder=$(realpath "${1:-target/aarch64/aarch64-unknown-linux-gnu/fast}")
export GPUVEC_LIB=$folder/libgpuvec.so GPUVEC_PLACEMENT=cpu

# Without threads_and_fork: if another thread holds a mutex of QEMU's own during the fork, the child may wait forever.
tools/aarch64.sh make -C c_examples run header LIB="$folder" BUILD=../target/aarch64/c_examples \
    CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++ UNDER=qemu-aarch64 SKIPPED=threads_and_fork

tools/test_hashes.sh tools/aarch64.sh python-aarch64

if [ $# -gt 0 ]; then
    # The tests of PTX emulate a GPU for nine minutes, and its texts are the same on any processor.
    tools/aarch64.sh cargo test --profile fast --workspace --exclude gpuvec_python --exclude gpuvec_ptx --lib --tests
else
    # Fewer random cases and inputs of functions than on this processor.
    PROPTEST_CASES=16 GPUVEC_TEST_STEP=61 tools/aarch64.sh cargo test --profile fast -p gpuvec --lib -- cpu:: process::
fi
