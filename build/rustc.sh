#!/bin/sh
# Runs the compiler for cargo, as .cargo/config.toml says: `rustc.sh RUSTC ARGUMENT...`. The paths of a crate's sources and
# of what its build script wrote, which panics name, become the same in every folder and with vendored crates.
if [ -n "${CARGO_MANIFEST_DIR-}" ]; then
    set -- "$@" "--remap-path-prefix=$CARGO_MANIFEST_DIR=crates/$CARGO_PKG_NAME-$CARGO_PKG_VERSION"
fi
if [ -n "${OUT_DIR-}" ]; then
    set -- "$@" "--remap-path-prefix=$OUT_DIR=out"
fi
exec "$@"
