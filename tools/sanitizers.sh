#!/usr/bin/env bash
# Runs the Rust tests under AddressSanitizer (with LeakSanitizer) and ThreadSanitizer, on the CPU
# and, with the fake driver, on the GPU's code.
#
#     tools/sanitizers.sh [address] [thread]        default: both
#
# Sanitizers are unstable options, which RUSTC_BOOTSTRAP enables in the stable compiler; their
# runtimes come with it. The standard library is built with them as well, from its sources (rustup
# downloads them once): ThreadSanitizer would not see how a prebuilt one synchronizes, and report
# nearly every lock as a race.
set -euo pipefail
cd "$(dirname "$0")/.."
triple=x86_64-unknown-linux-gnu
[ -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library" ] || rustup component add rust-src

export RUSTC_BOOTSTRAP=1
# Optimised, since a debug build is too slow, but with its checks.
export CARGO_PROFILE_DEV_OPT_LEVEL=1
export LSAN_OPTIONS=suppressions=$PWD/tools/leaks.supp:print_suppressions=0

for sanitizer in ${*:-address thread}; do
    # The test programs contain the sanitizer's functions, also for the driver; the libraries are
    # linked without them.
    export RUSTFLAGS="-Zsanitizer=$sanitizer -Alinker_messages
        -Clink-arg=-Wl,--export-dynamic-symbol=__?san_* -Clink-arg=-Wl,--warn-unresolved-symbols"
    built=target/sanitizers/$sanitizer
    options=(-Zbuild-std --target "$triple" --target-dir "$built")
    driver=$PWD/$built/driver
    cargo build "${options[@]}" --package gpuvec_fake_driver
    mkdir -p "$driver"
    cp "$built/$triple/debug/libgpuvec_fake_driver.so" "$driver/libcuda.so.1"
    for path in "" "$driver"; do
        echo "== $sanitizer, the driver in: ${path:-the system}"
        LD_LIBRARY_PATH=$path cargo test "${options[@]}" --package gpuvec --tests
    done
done
