#!/usr/bin/env bash
# Runs tests/addresses.rs in Miri, which stops at undefined behaviour that no processor shows: values
# at addresses that their type does not have.
#
#     tools/miri.sh
#
# Miri is a part of nightly Rust, which rustup installs once. Without rustup the tests do not run.
set -euo pipefail
cd "$(dirname "$0")/.."
has_miri() { cargo +nightly miri --version >/dev/null 2>&1; }
has_miri || rustup toolchain install nightly --profile minimal --component miri,rust-src || true
if ! has_miri; then
    echo "Miri is not installed (rustup toolchain install nightly --component miri,rust-src):" \
        "tests/addresses.rs did not run in it"
    exit
fi

# The library keeps the addresses of arrays as integers. Miri has no vector instructions.
export MIRIFLAGS="-Zmiri-permissive-provenance
    -Zmiri-env-set=GPUVEC_VECTORS=portable -Zmiri-env-set=GPUVEC_NUM_THREADS=1"
cargo +nightly miri test --target-dir target/miri --test addresses
