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

# Calls a program of apt with lists of packages for both processors, which are not the system's.
debian() {
    local program=$1
    shift
    "$program" -qq -o Dir::State::Lists="$tools/apt/lists" -o Dir::Cache="$tools/apt" \
        -o Dir::Etc::SourceList="$tools/apt/sources.list" -o APT::Sandbox::User=root -o Acquire::Languages=none \
        -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 "$@"
}

unpack() { # FOLDER PACKAGE...
    local folder=$1 packages=$tools/apt/packages
    shift
    mkdir -p "$packages"
    (cd "$packages" && debian apt-get download "$@")
    local package
    for package in "$packages"/*.deb; do dpkg -x "$package" "$folder"; done
    rm -r "$packages"
}

depends() { # PACKAGE PATTERN: the package that it needs
    debian apt-cache depends "$1" | grep -oE "$2" | head -1
}

download() {
    rm -rf "$tools"
    mkdir -p "$tools"/{bin,apt/{lists,archives}/partial}
    touch "$tools/apt/sources.list"
    # QEMU before version 8 does as if it wiped memory on fork.
    local mirror codename
    mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -m 1 '/debian/$')
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    echo "deb $mirror $codename-backports main" >"$tools/apt/sources.list"
    debian apt-get update
    unpack "$tools/qemu" "qemu-user/$codename-backports"
    unpack "$tools/arm64" {libc6,libgcc-s1,libstdc++6,libcrypt1,libbz2-1.0,libexpat1,libffi8,liblzma5,libssl3,libuuid1,zlib1g}:arm64 \
        {python3.11-minimal,libpython3.11-minimal,libpython3.11-stdlib}:arm64
    if [ -z "${has_target:-}" ]; then
        local std
        std=$(depends libstd-rust-web-dev 'libstd-rust-web-[0-9.]+')
        unpack "$tools/rust" rustc-web rust-web-clippy "$std" "$(depends "$std" 'libllvm[0-9]+')" \
            libstd-rust-web-dev:{amd64,arm64}
    fi
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
if [ -z "${has_target:-}" ]; then
    # rustc's own libraries; programs for aarch64 ignore those of another processor. Its cargo-clippy precedes rustup's.
    export LD_LIBRARY_PATH=$tools/rust/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export RUSTC=$tools/rust/usr/bin/rustc PATH=$tools/rust/usr/bin:$PATH
fi
# A job server of make that calls this has no descriptors here.
unset MAKEFLAGS MFLAGS
exec "$@"
