#!/usr/bin/env bash
# Makes the files of a release in dist/: the source distribution, and for each processor the wheel and the archive for
# C programs, which has the wheel's library; and the checksums.
#
#     release/dist.sh [PROCESSOR...]        default: x86_64 aarch64
#
# BUILT names a library of this processor that exists, with the extension module beside it: these are packed instead,
# to test the packing. They need the glibc of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
# The oldest glibc that Rust's standard library supports.
[ -n "${BUILT:-}" ] || export GPUVEC_GLIBC=2.17
export GPUVEC_BUILT=${BUILT:-}
# The time in the archives.
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

wheel() { # PROCESSOR [COMMAND that runs another with a compiler for it]
    GPUVEC_PROCESSOR=$1 "${@:2}" python -m build --quiet --no-isolation --wheel --outdir "$PWD/dist"
    # As tightly as Deflate can, a twentieth smaller.
    advzip --recompress --shrink-insane --quiet dist/*_"$1".whl
    [ -z "${BUILT:-}" ] || return 0
    auditwheel show dist/*_"$1".whl | tee target/wheel/auditwheel.txt
    tr '\n' ' ' <target/wheel/auditwheel.txt |
        grep -q "following platform tag: \"manylinux_2_17_$1\""
}

archive() { # PROCESSOR
    local name=libgpuvec-$version-linux-$1 stage
    stage=target/wheel/$name
    rm -rf "$stage"
    DESTDIR="$PWD/target/wheel" PREFIX="/$name" \
        BUILT="${BUILT:-target/wheel/2.17/$1-unknown-linux-gnu/release/libgpuvec.so}" \
        install/install.sh install
    install -Dm 644 -t "$stage/share/doc/gpuvec" LICENSE-* README.md CHANGELOG.md
    tar --create --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw,a-s \
        --mtime="@$SOURCE_DATE_EPOCH" --directory=target/wheel "$name" |
        gzip --no-name --best >"dist/$name.tar.gz"
}

rm -rf dist
python -m build --quiet --no-isolation --sdist --outdir dist
for processor in ${*:-x86_64 aarch64}; do
    compiler=()
    # zig is the linker.
    [ "$processor" = x86_64 ] ||
        compiler=(tools/aarch64.sh env -u CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER)
    wheel "$processor" "${compiler[@]}"
    archive "$processor"
done

cd dist
sha256sum -- * >SHA256SUMS
cat SHA256SUMS
