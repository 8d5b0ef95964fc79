#!/usr/bin/env bash
# Builds the wheels a second time, as far from the first as can be: by pip, from the source
# distribution, offline, in another folder and with an empty cargo home. Compares the bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export GPUVEC_GLIBC=2.17 CARGO_HOME="$folder/cargo_home" CARGO_NET_OFFLINE=true TMPDIR="$folder"
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"

again() { # PROCESSOR [COMMAND that runs another with a compiler for it]
    GPUVEC_PROCESSOR=$1 "${@:2}" pip wheel --quiet --no-index --no-deps --no-build-isolation \
        --wheel-dir "$folder" "$PWD"/dist/gpuvec-*.tar.gz
    advzip --recompress --shrink-insane --quiet "$folder"/*_"$1".whl
    sha256sum dist/*_"$1".whl "$folder"/*_"$1".whl
    cmp dist/*_"$1".whl "$folder"/*_"$1".whl
}
again x86_64
again aarch64 tools/aarch64.sh env -u CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER
