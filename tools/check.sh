#!/usr/bin/env bash
# The longer checks. `make NAME` builds what a check needs, and then calls `tools/check.sh NAME`.
# Without a name it lists them.
set -eo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH
fake_driver=$PWD/target/fake_driver
# cargo with all instructions of this processor.
native() { RUSTFLAGS="-C target-cpu=native" cargo "$1" --release --target-dir target/every-float "${@:2}"; }

case ${1:-help} in
help)
    sed -nE 's/^([a-z0-9-]+)\) ## (.*)/\1\t\2/p' "$0" | while IFS=$'\t' read -r name text; do
        printf '  make %-18s %s\n' "$name" "$text"
    done
    ;;
lint-aarch64) ## clippy for AArch64; needs Debian
    # By the profile of test-aarch64: what build scripts and macros depend on is compiled once for both.
    tools/aarch64.sh cargo clippy --profile fast -- -D warnings
    ;;
fresh) ## the header, the PTX and the functions' constants match their sources
    # The files that build.rs writes.
    git diff --exit-code -- include c_examples python/gpuvec/_library.py docs/reference
    python kernels/build.py --check
    python tools/fast_functions.py | rustfmt --edition 2024 | diff - crates/math/src/fast/constants.rs
    ;;
baselines) ## add new functions to the baselines: the binary interface, and the hashes of results
    UPDATE_ABI=1 cargo test --profile fast --test abi
    python python_tests/support/result_hashes.py >target/results.sha256
    mv target/results.sha256 python_tests/operations/results.sha256
    ;;
usage) ## registers and spills of each kernel, and of expressions (ARCHITECTURES= for all)
    cargo run --profile fast -q -p gpuvec_ptx --example formulas -- target/formulas --texts
    # Words, not one argument.
    # shellcheck disable=SC2086
    python kernels/build.py --usage $ARCHITECTURES target/formulas
    ;;
licences) ## licences and sources of every package, offline; the notices that go with the library
    cargo-deny --workspace --offline check licenses bans sources
    python release/third_party.py --check
    ;;
large-sums) ## exact sums of 2^28 elements
    python -m pytest -q -m large python_tests/exact
    ;;
every-float) ## functions of one f32 on all 2^32 inputs, of two on 2^27 and 10^7 hard ones; half an hour
    native test -p gpuvec_math --lib --test rounding --test two_arguments -- --ignored --test-threads=1
    native test -p gpuvec --lib fast_tests -- --ignored --test-threads=1
    ;;
random-expressions) ## 10^5 random expressions as PTX in the emulator, on arrays of any strides, along axes
    cargo test --profile fast -p gpuvec_ptx -- --ignored --nocapture
    ;;
numpy-expressions) ## 10^5 random expressions beside NumPy, in a minute (NUMPY_COUNT=100000)
    python tools/numpy_expressions.py --count "${NUMPY_COUNT:-100000}"
    ;;
random-arrays) ## 10^5 random calls on arrays of any shapes and strides beside NumPy (NUMPY_COUNT=100000)
    python tools/numpy_expressions.py --arrays --count "${NUMPY_COUNT:-100000}"
    ;;
peers) ## numexpr's own tests, and pandas', on gpuvec; functions of Spark and Ray: docs/reference/peers.md
    python tools/peers/run.py
    target/peers/engines/bin/python -m pytest -q -rs tools/peers/test_engines.py
    ;;
function-errors) ## errors of functions, of f64 on a million arguments each and of two f32, against MPFR
    native build -p gpuvec_math --example evaluate --example evaluate_pairs
    python tools/function_errors.py target/every-float/release/examples
    ;;
function-bounds) ## prove bounds of the errors of functions, in three minutes of CPU time
    python tools/function_bounds/two_arguments.py
    mkdir -p target/function_bounds
    cargo run --profile fast -q -p gpuvec_math --example record >target/function_bounds/recordings
    python tools/function_bounds/double.py target/function_bounds/recordings
    ;;
fault-injection) ## every driver call fails in turn, in every way, on the fake driver; half an hour
    python python_tests/support/fault_injection.py
    ;;
load) ## 64 threads of mixed calls for two minutes, on the fake driver
    LD_LIBRARY_PATH=$fake_driver FAKE_DRIVER_DELAY=200 python tools/stress.py load
    ;;
random-faults) ## random faults of the fake driver under eight threads (FAULT_SECONDS=600)
    LD_LIBRARY_PATH=$fake_driver python tools/stress.py faults --seconds "${FAULT_SECONDS:-600}"
    ;;
security) ## setuid processes, files, sockets, the driver's name (as root, with strace)
    tools/security.sh
    ;;
sanitizers) ## the Rust tests under AddressSanitizer and ThreadSanitizer, with and without the fake driver
    tools/sanitizers.sh
    ;;
miri) ## callers' values at any address, in Miri, which nightly Rust has
    tools/miri.sh
    ;;
fuzz) ## any arguments in any order, arrays of any strides, against models; any states, texts (FUZZ_SECONDS=60)
    for target in calls arrays states expressions texts; do tools/fuzz.sh "${FUZZ_SECONDS:-60}" "$target"; done
    ;;
lintian) ## Debian packages of what `make install` installs, checked by lintian
    tools/lintian.sh
    ;;
test-musl) ## the library for musl: examples, hashes of results, the Rust tests; needs Debian
    tools/test_musl.sh
    ;;
reproducible) ## build the wheel again from the source distribution, offline: the same bytes
    release/reproducible.sh
    ;;
site-check) ## every page of the site in a browser, with screenshots in target/site
    python tools/site_check.py --screenshots target/site
    ;;
reference) ## write the header's reference, target/reference/html, by Doxygen
    mkdir -p target/reference
    doxygen docs/Doxyfile
    ;;
links) ## the site's links to other sites, over the network
    sphinx-build -q -b linkcheck -d target/doctrees docs target/links
    ;;
*)
    echo "$1 is not a check: tools/check.sh lists them" >&2
    exit 2
    ;;
esac
