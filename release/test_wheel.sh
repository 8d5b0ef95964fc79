#!/usr/bin/env bash
# Installs the wheel of dist/ in an empty environment and runs tests on it: test_wheel.sh TESTS...
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$PWD/target/wheel/venv
rm -rf "$venv"
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/pip" install --quiet --no-compile dist/*_"$(uname -m)".whl -r python_tests/requirements.txt

GPUVEC_LIB=$(echo "$venv"/lib/*/site-packages/gpuvec/libgpuvec.so)
export GPUVEC_LIB GPUVEC_DIST="$PWD/dist"
# The tests' programs load the library by its soname.
soname=$(readelf -d "$GPUVEC_LIB" | sed -n 's/.*soname: \[\(.*\)\]/\1/p')
[ -e "$(dirname "$GPUVEC_LIB")/$soname" ] || ln -s libgpuvec.so "$(dirname "$GPUVEC_LIB")/$soname"
# Without the repository's package, which the tests import otherwise.
PYTHONPYCACHEPREFIX=$PWD/target/pycache PYTHONDONTWRITEBYTECODE='' "$venv/bin/python" -m pytest -q -o pythonpath=python_tests/support "$@"
