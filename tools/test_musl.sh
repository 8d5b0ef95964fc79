#!/usr/bin/env bash
# Builds the library for musl and tests it there: C examples, the committed hashes of results, the Rust tests.
#
#     tools/test_musl.sh
#
# Needs Debian on x86-64 and, in .venv, the tools of a release, zig among them (`make .venv/release`). Everything else is
# downloaded from Debian and PyPI into target/musl/tools, once, and is not installed: musl, the sources of Python and
# libffi, which zig compiles for it, and NumPy. Unless rustc has the target (`rustup target add
# x86_64-unknown-linux-musl`), an unstable option of cargo compiles the standard library: from rustup's rust-src or, if
# that is missing, from Debian's, by Debian's rustc.
set -euo pipefail
cd "$(dirname "$0")/.."
target=x86_64-unknown-linux-musl
tools=$PWD/target/musl/tools
export PATH=$PWD/.venv/bin:$tools/bin:$PATH
for program in apt-get cargo-zigbuild; do
    command -v $program >/dev/null || { echo "$program is missing: tools/test_musl.sh says what it needs" >&2; exit 1; }
done
processors=()
source tools/debian.sh
# A job server of make that calls this has no descriptors here.
unset MAKEFLAGS MFLAGS

# Makes a compiler of zig: its programs run here, by the downloaded musl. Crates call the target by another name, and the
# last one counts.
compiler() { # NAME LANGUAGE
    cat >"$tools/bin/$1" <<END
#!/bin/sh
loader=$tools/musl/usr/lib/ld-musl-x86_64.so.1
exec $PWD/.venv/bin/python -m ziglang $2 "\$@" -fno-sanitize=undefined \
    -target x86_64-linux-musl -dynamic -Wl,--dynamic-linker=\$loader
END
    chmod +x "$tools/bin/$1"
}

from_source() { # NAME OPTION_OF_CONFIGURE...
    echo "compiling $1 for musl"
    (
        cd "$tools/sources/$1"-*
        CC=musl-cc CFLAGS="-O2 -fPIC" ./configure --prefix="$tools/python" "${@:2}"
        make -s -j"$(nproc)" install
    ) >"$tools/$1.log" 2>&1 || { tail -n 20 "$tools/$1.log" >&2; exit 1; }
}

download() {
    rm -rf "$tools"
    mkdir -p "$tools"/{bin,sources}
    read_lists
    [ -z "${debian_rust:-}" ] || unpack_rust rust-web-src
    # The first Debian with a musl that zig's C++ library can use; its rustc would need its glibc. The last whose libffi
    # comes with its configure.
    local of_musl=trixie of_libffi=bookworm
    read_lists {deb,deb-src}" MIRROR $of_musl main" "deb-src MIRROR $of_libffi main"
    unpack "$tools/musl" musl/$of_musl
    (
        cd "$tools/sources"
        debian apt-get source --download-only python3.13/$of_musl libffi/$of_libffi
        for archive in *.orig.tar.?z; do tar -xf "$archive"; done
    )
    rm -r "$tools/apt"
    compiler musl-cc cc
    compiler musl-c++ c++
    from_source libffi --disable-shared --disable-docs --disable-exec-static-tramp
    # This system's libraries are not musl's (PKG_CONFIG), Python sees by a macro that zig's headers lack that the C
    # library is musl (CPP), and says when it was compiled, which zig refuses (CPPFLAGS).
    from_source Python --disable-test-modules --without-ensurepip PKG_CONFIG=false \
        CPP="musl-cc -E -D__DEFINED_va_list" CPPFLAGS="-Wno-date-time -I$tools/python/include" \
        LDFLAGS="-L$tools/python/lib"
    rm -r "$tools/sources"
    # Newer NumPy needs a Python with zlib.
    pip install --quiet --target "$tools/site" --only-binary=:all: --python-version 3.13 \
        --platform musllinux_1_2_x86_64 'numpy<2.3' gmpy2
    touch "$tools/ready"
}

std=()
sysroot=$(rustc --print sysroot)/lib/rustlib
if [ ! -d "$sysroot/$target" ]; then
    std=(-Zbuild-std)
    export RUSTC_BOOTSTRAP=1
    [ -d "$sysroot/src/rust/library" ] || debian_rust=yes
fi
[ -e "$tools/ready" ] || download
[ -z "${debian_rust:-}" ] || use_rust
export CARGO_TARGET_DIR=$PWD/target/musl CARGO_BUILD_TARGET=$target
# By itself, Rust would link a static C library.
shared="-C target-feature=-crt-static"

RUSTFLAGS=$shared cargo zigbuild "${std[@]}" --release --lib -p gpuvec
folder=$CARGO_TARGET_DIR/$target/release
make -C c_examples run header LIB="$folder" BUILD=../target/musl/c_examples CC=musl-cc CXX=musl-c++
GPUVEC_LIB=$folder/libgpuvec.so PYTHONPATH=python:python_tests/support:$tools/site \
    tools/test_hashes.sh "$tools/python/bin/python3"
# Programs that share musl with the libraries that they open; cargo-zigbuild would link them statically.
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER=musl-cc CC_x86_64_unknown_linux_musl=musl-cc
RUSTFLAGS="$shared -C link-self-contained=no" cargo test "${std[@]}" --profile fast --workspace \
    --exclude gpuvec_python --lib --tests
