#!/usr/bin/env bash
# Runs the Python tests with the Python that is given, as many side by side as there are processors.
#
#     tools/test_python.sh .venv/bin/python
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/test_parts.sh
jobs=${TEST_JOBS:-$(nproc)}
status=0
"$1" -m pytest -q -n "$jobs" "${most[@]}" || status=1
"$1" -m pytest -q -n "$jobs" --dist loadfile "${processes[@]}" || status=1
"$1" -m pytest -q "${alone[@]}" || status=1
exit $status
