#!/usr/bin/env bash
# Counts the lines of src and crates that the Rust and Python tests run, without a driver and on the
# fake driver. `make coverage` selects the tests: RUST_TESTS is the command for the Rust tests, and WITHOUT_DRIVER and
# WITH_DRIVER are expressions of pytest's marks.
#
#     tools/coverage.sh PYTHON FAKE_DRIVER_FOLDER WITHOUT_DRIVER WITH_DRIVER
#
# Needs llvm-profdata and llvm-cov of LLVM 19 or later: Debian's llvm-19, or rustup's llvm-tools.
# The counters are in mapped files, so that forked children and killed processes count, too.
set -euo pipefail
cd "$(dirname "$0")/.."
llvm=$(rustc --print target-libdir)/../bin
[ -x "$llvm/llvm-cov" ] || llvm=$(printf '%s\n' /usr/lib/llvm-*/bin | sort -V | tail -1)
triple=$(rustc -vV | sed -n 's/^host: //p')
built=$PWD/target/coverage
# With a target, cargo does not pass the flags to build scripts.
options=(--target "$triple" --target-dir "$built"
    --config 'build.rustflags=["-Cinstrument-coverage", "-Cllvm-args=-runtime-counter-relocation"]')
read -ra rust_tests <<<"$RUST_TESTS --no-fail-fast"
rust_tests+=("${options[@]}")
export GPUVEC_LIB=$built/$triple/fast/libgpuvec.so
export LLVM_PROFILE_FILE=$built/profiles/%m%c.profraw

rm -rf "$built/profiles"
cargo build --profile fast "${options[@]}"
"${rust_tests[@]}" --no-run --message-format=json >"$built/artifacts.json"

# Tests may fail here, such as the tests of the library's size, since the counters are in it.
run_tests() { # PYTHON MARKS
    "${rust_tests[@]}" || true
    tools/test_python.sh "$1" -m "$2" || true
}
run_tests "$1" "$3"
LD_LIBRARY_PATH=$2 GPUVEC_TEST_PLACEMENTS=gpu,auto run_tests "$1" "$4"

"$1" tools/coverage.py "$llvm" "$built"
