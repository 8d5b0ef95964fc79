#!/usr/bin/env bash
# Runs a command with cargo set up for aarch64: builds go to target/aarch64, programs run under QEMU.
#
#     tools/aarch64.sh cargo build --release
#     tools/aarch64.sh cargo clippy --release -- -D warnings
#     tools/aarch64.sh qemu-aarch64 target/aarch64/program
#
# Needs Debian's gcc-aarch64-linux-gnu and qemu-user. rustc is that of the PATH, if it has the target (`rustup target
# add aarch64-unknown-linux-gnu`). Else Debian's rustc for both processors is downloaded into target/aarch64/toolchain,
# and nothing is installed: a standard library can only be used by the very compiler that built it.
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu
export CARGO_BUILD_TARGET=$target CARGO_TARGET_DIR=$PWD/target/aarch64
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64
# Where QEMU finds the C library.
export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
toolchain=$CARGO_TARGET_DIR/toolchain

download() { # into the folder $toolchain
    local state=$toolchain/apt rustc=rustc-web
    mkdir -p "$state/lists/partial" "$state/archives/partial"
    apt() { apt-get -qq -o Dir::State::Lists="$state/lists" -o Dir::Cache="$state" \
        -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=root "$@"; }
    depends() { # PACKAGE PATTERN: the package that it depends on
        apt-cache -o Dir::State::Lists="$state/lists" -o Dir::Cache="$state" depends "$1" | grep -oE "$2" | head -1
    }
    apt update
    local std llvm
    std=$(depends libstd-rust-web-dev 'libstd-rust-web-[0-9.]+')
    llvm=$(depends "$std" 'libllvm[0-9]+')
    (cd "$state" && apt download $rustc rust-web-clippy "$std" "$llvm" libstd-rust-web-dev:{amd64,arm64})
    local package
    for package in "$state"/*.deb; do dpkg -x "$package" "$toolchain"; done
    rm -r "$state"
    touch "$toolchain/ready"
}

if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    [ -e "$toolchain/ready" ] || download
    # For rustc's own libraries; programs for aarch64 ignore those of another processor.
    export LD_LIBRARY_PATH=$toolchain/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    # cargo's clippy is a program beside its compiler.
    export RUSTC=$toolchain/usr/bin/rustc PATH=$toolchain/usr/bin:$PATH
fi
exec "$@"
