#!/usr/bin/env bash
# Installs gpuvec for other programs, or removes it; `make install` and `make uninstall` run it.
#
#     PREFIX=/usr/local LIBDIR=... INCLUDEDIR=... MANDIR=... DESTDIR=... install/install.sh install
#
# DESTDIR is a folder in place of the root, in which packages are staged. The installed files refer
# to each other by relative paths, so they can be moved together. BUILT is the library's file.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "$*" >&2
    exit 2
}

built=${BUILT:-target/release/libgpuvec.so}
prefix=${PREFIX:-/usr/local}
libdir=${LIBDIR:-$prefix/lib}
includedir=${INCLUDEDIR:-$prefix/include}
mandir=${MANDIR:-$prefix/share/man}
destdir=${DESTDIR:-}

check_folder() { # NAME FOLDER: refuses what make, pkg-config, CMake or rm would take for something else
    [[ $2 == /* ]] || fail "$1 is '$2': pass an absolute path"
    [[ $2 != *[$'"\'\\$`;#|&\n\t']* ]] || fail "$1 is '$2': pass a path without quotes, \\ \$ \` ; # | &"
    [[ $2/ != */../* ]] || fail "$1 is '$2': pass a path without .."
}
check_folder PREFIX "$prefix"
check_folder LIBDIR "$libdir"
check_folder INCLUDEDIR "$includedir"
check_folder MANDIR "$mandir"
[ -z "$destdir" ] || check_folder DESTDIR "$destdir"

macro() { awk -v name="GPUVEC_$1" '$2 == name { print $3 }' include/gpuvec.h; }
version=$(macro VERSION_MAJOR).$(macro VERSION_MINOR).$(macro VERSION_PATCH)
soname=libgpuvec.so.$(macro ABI_VERSION)

library=$destdir$libdir/$soname.$version
links=("$destdir$libdir/$soname" "$destdir$libdir/libgpuvec.so")
headers=("$destdir$includedir"/gpuvec.{h,hpp})
cmake=$destdir$libdir/cmake/gpuvec
# These files are made from the templates of their names in this folder.
filled=("$destdir$libdir/pkgconfig/gpuvec.pc" "$cmake"/gpuvecConfig{,Version}.cmake)
man3=$destdir$mandir/man3

from_libdir() { realpath -ms --relative-to="$libdir" "$1"; }

fill() { # FILE: makes it from its template
    local to_prefix to_includedir
    to_prefix=$(from_libdir "$prefix") to_includedir=$(from_libdir "$includedir")
    # For pkg-config a space ends a word.
    [[ $1 != *.pc ]] || to_prefix=${to_prefix// /\\\\ } to_includedir=${to_includedir// /\\\\ }
    install -Dm 644 "install/${1##*/}.in" "$1"
    sed -i -e "s|@VERSION@|$version|; s|@SONAME@|$soname|" \
        -e "s|@PREFIX@|$to_prefix|; s|@INCLUDEDIR@|$to_includedir|" "$1"
}

# The manual pages, which `uninstall` makes to know their names.
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
changed=$(stat -c %Y include/gpuvec.h)
date=$(date -u -d "@${SOURCE_DATE_EPOCH:-$changed}" +%F)
awk -v version="$version" -v date="$date" -v folder="$pages" -f install/man_pages.awk include/gpuvec.h

case ${1:-} in
install)
    install -Dm 755 "$built" "$library"
    for link in "${links[@]}"; do ln -sf "$soname.$version" "$link"; done
    install -Dm 644 -t "$destdir$includedir" include/gpuvec.{h,hpp}
    for file in "${filled[@]}"; do fill "$file"; done
    install -Dm 644 -t "$man3" "$pages"/*
    ;;
uninstall)
    rm -f "$library" "${links[@]}" "${headers[@]}" "${filled[@]}"
    for page in "$pages"/*; do rm -f "$man3/${page##*/}"; done
    [ ! -d "$cmake" ] || rmdir --ignore-fail-on-non-empty "$cmake"
    ;;
*)
    fail "usage: install/install.sh install, or uninstall"
    ;;
esac
