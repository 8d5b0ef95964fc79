#!/usr/bin/env bash
# Makes Debian packages of what `make install` installs, and has lintian check them: everything but
# the files that only a distribution writes.
#
#     tools/lintian.sh        after `make build`; needs lintian and dpkg-deb
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libdir=usr/lib/x86_64-linux-gnu
abi=$(awk '$2 == "GPUVEC_ABI_VERSION" { print $3 }' include/gpuvec.h)
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
# A changelog, a copyright file, a long description.
papers=no-changelog,no-copyright-file,extended-description-is-empty

control() { # PACKAGE SECTION DEPENDS
    mkdir -p "$work/$1/DEBIAN"
    cat >"$work/$1/DEBIAN/control" <<EOF
Package: $1
Version: $version-1
Architecture: amd64
Maintainer: gpuvec <gpuvec@example.org>
Section: $2
Priority: optional
Multi-Arch: same
Depends: $3
Description: vector operations on NVIDIA GPUs or on the CPU
EOF
}

make -s install PREFIX=/usr LIBDIR="/$libdir" DESTDIR="$work/libgpuvec-dev"
gzip -9n "$work"/libgpuvec-dev/usr/share/man/man3/*
control "libgpuvec$abi" libs "libc6, libgcc-s1"
control libgpuvec-dev libdevel "libgpuvec$abi (= $version-1)"
mkdir -p "$work/libgpuvec$abi/$libdir"
mv "$work/libgpuvec-dev/$libdir/libgpuvec.so.$abi"* "$work/libgpuvec$abi/$libdir/"
# dh_fixperms, dh_makeshlibs.
chmod 644 "$work/libgpuvec$abi/$libdir/libgpuvec.so.$abi."*
echo "libgpuvec $abi libgpuvec$abi" >"$work/libgpuvec$abi/DEBIAN/shlibs"
echo "activate-noawait ldconfig" >"$work/libgpuvec$abi/DEBIAN/triggers"

for package in "libgpuvec$abi" libgpuvec-dev; do
    dpkg-deb --build --root-owner-group "$work/$package" "$work/$package.deb" >/dev/null
done
lintian --allow-root --suppress-tags "$papers" --fail-on error,warning "$work"/*.deb
echo "lintian has no finding"
