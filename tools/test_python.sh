#!/usr/bin/env bash
# Runs the Python tests with the Python that is given, as many side by side as there are processors, and
# with options of pytest.
#
#     tools/test_python.sh .venv/bin/python [OPTION...]
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/test_parts.sh
# Keeps compiled modules: the tests start hundreds of processes, and each would compile them again.
export PYTHONPYCACHEPREFIX=$PWD/target/pycache PYTHONDONTWRITEBYTECODE=
jobs=${TEST_JOBS:-$(nproc)}
run=("$1" -m pytest -q "${@:2}")
status=0
# Shows the output of a crashed process again at the end: thousands of tests' dots follow it.
crashes=$(mktemp)
trap 'grep -A 12 "^Fatal Python error" "$crashes" | head -100; rm "$crashes"' EXIT
exec 2> >(tee "$crashes" >&2)
"${run[@]}" -n "$jobs" "${most[@]}" || status=1
# The options may select no test here (exit status 5).
"${run[@]}" -n "$jobs" --dist loadfile "${processes[@]}" || [ $? = 5 ] || status=1
# On the fake driver, each process has devices of its own.
together=()
[[ ${LD_LIBRARY_PATH:-} != *fake_driver* ]] || together=(-n "$jobs" --dist loadfile)
"${run[@]}" "${together[@]}" "${alone[@]}" || [ $? = 5 ] || status=1
exit $status
