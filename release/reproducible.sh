#!/usr/bin/env bash
# Builds the wheel a second time, as far from the first as can be: by pip, from the source
# distribution, offline, in another folder and with an empty cargo home. Compares the bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export GPUVEC_GLIBC=2.17 CARGO_HOME="$folder/cargo_home" CARGO_NET_OFFLINE=true TMPDIR="$folder"
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"

pip wheel --quiet --no-index --no-deps --no-build-isolation --wheel-dir "$folder" dist/gpuvec-*.tar.gz
sha256sum dist/*.whl "$folder"/*.whl
cmp dist/*.whl "$folder"/*.whl
