#!/usr/bin/env bash
# Fuzzes the exported functions (fuzz/fuzz_targets) under AddressSanitizer.
#
#     tools/fuzz.sh [SECONDS] [TARGET]        default: 60 calls
#     tools/fuzz.sh 0 TARGET FILE             repeats an input that failed
#
# The targets are calls, arrays, states, expressions and texts. With LD_LIBRARY_PATH=target/fake_driver
# (`make fake-driver`) calls run on the fake driver. Keeps its corpus in fuzz/corpus for the next run, and
# stores failing inputs in fuzz/artifacts. Needs a C++ compiler, and the network the first time.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60} target=${2:-calls}
installed=$PWD/target/tools
export PATH=$installed/bin:$PATH
command -v cargo-fuzz >/dev/null ||
    cargo install --quiet --locked --root "$installed" cargo-fuzz@0.13.2

# Sanitizers are unstable options, which this variable enables in the stable compiler.
export RUSTC_BOOTSTRAP=1
export LSAN_OPTIONS=suppressions=$PWD/tools/leaks.supp:print_suppressions=0
# The fuzzer is an executable and has the sanitizer's functions; the unused shared library is linked
# without them.
export RUSTFLAGS="-Clink-arg=-Wl,--warn-unresolved-symbols -Alinker_messages"
fuzz() { cargo fuzz run --target-dir target/fuzz "$target" "$@"; }
if [ "$target" = texts ]; then
    # Safe Rust alone, which is many times faster without a sanitizer and traced comparisons.
    fuzz() { cargo fuzz run --sanitizer none --no-trace-compares --target-dir target/fuzz-texts texts "$@"; }
fi

if [ $# -gt 2 ]; then
    fuzz "$3"
elif [ "$target" = texts ]; then
    fuzz -- -fork="$(nproc)" -max_total_time="$seconds" -max_len=200 -len_control=0
else
    # Long programs from the start: a failure may take many steps.
    fuzz -- -max_total_time="$seconds" -max_len=1200 -len_control=0 -print_final_stats=1
fi
