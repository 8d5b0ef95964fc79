#!/usr/bin/env bash
# Runs a command with cargo set up for aarch64: builds go to target/aarch64, and programs run in QEMU.
#
#     tools/aarch64.sh cargo build --release
#     tools/aarch64.sh cargo test --profile fast -p gpuvec_math
#     tools/aarch64.sh qemu-aarch64 target/aarch64/c_examples/vector_add
#     tools/aarch64.sh python-aarch64 python_tests/support/result_hashes.py
#
# Needs Debian, and its gcc-aarch64-linux-gnu and g++-aarch64-linux-gnu. Everything else is downloaded from Debian and
# PyPI into target/aarch64/tools, once, and is not installed: QEMU, Python with NumPy for aarch64, and, unless rustc has
# the target (`rustup target add aarch64-unknown-linux-gnu`), another rustc with its standard libraries for both
# processors.
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu
tools=$PWD/target/aarch64/tools

processors=(amd64 arm64)
source tools/debian.sh

download() {
    rm -rf "$tools"
    mkdir -p "$tools/bin"
    # QEMU before version 8 does as if it wiped memory on fork.
    local codename
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    read_lists "deb MIRROR $codename-backports main"
    unpack "$tools/qemu" "qemu-user/$codename-backports"
    unpack "$tools/arm64" {libc6,libgcc-s1,libstdc++6,libcrypt1,libbz2-1.0,libexpat1,libffi8,liblzma5,libssl3,libuuid1,zlib1g}:arm64 \
        {python3.11-minimal,libpython3.11-minimal,libpython3.11-stdlib}:arm64
    [ -n "${has_target:-}" ] || unpack_rust rust-web-clippy libstd-rust-web-dev:arm64
    rm -r "$tools/apt"
    .venv/bin/pip install --quiet --target "$tools/site" --only-binary=:all: --python-version 3.11 \
        --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64 numpy gmpy2
    ln -s "$tools/qemu/usr/bin/qemu-aarch64" "$tools/bin"
    cat >"$tools/bin/python-aarch64" <<END
#!/bin/sh
PYTHONPATH=$PWD/python:$PWD/python_tests/support:$tools/site exec qemu-aarch64 $tools/arm64/usr/bin/python3.11 "\$@"
END
    chmod +x "$tools/bin/python-aarch64"
    touch "$tools/ready"
}

[ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || has_target=yes
[ -e "$tools/ready" ] || download
export PATH=$tools/bin:$PATH QEMU_LD_PREFIX=$tools/arm64
export CARGO_BUILD_TARGET=$target CARGO_TARGET_DIR=$PWD/target/aarch64
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64
[ -n "${has_target:-}" ] || use_rust
# A job server of make that calls this has no descriptors here.
unset MAKEFLAGS MFLAGS
exec "$@"
