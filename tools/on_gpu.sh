#!/usr/bin/env bash
# Runs all checks on a machine with a GPU: examples, tests in every placement, compute-sanitizer,
# timings. Run it in the repository's root.
#
#     make gpu-bundle        on a machine with Rust: collects the library, the fake driver and the
#                            test programs
#     tools/on_gpu.sh        on the GPU machine, in a checkout with target/gpu; needs no Rust
#
# Arguments choose parts: examples tests floats sanitizer mutants overlap load large timings placement
# (default: all but load and placement, which take minutes, LOAD_SECONDS=120 of them, and large, which
# needs 60 GB of memory on the host and on the device). The tests use PyTorch and CuPy as well if they are installed. Logs go to
# $OUT, or target/gpu/logs.
set -uo pipefail
cd "$(dirname "$0")/.."
bundle=$PWD/target/gpu
logs=${OUT:-$bundle/logs}
mkdir -p "$logs"
export PYTHONPATH=$PWD/python GPUVEC_LIB=$bundle/libgpuvec.so LD_LIBRARY_PATH=$bundle${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# Only the tests that ask for the fake driver find it: its folder is not in LD_LIBRARY_PATH.
mkdir -p target/fake_driver && cp "$bundle/libfake_driver.so" target/fake_driver/libcuda.so.1
[ -e target/release/libgpuvec.so ] || { mkdir -p target/release && cp -P "$bundle"/libgpuvec.so* target/release/; }
chmod +x "$bundle"/tests/*
parts=${*:-examples tests floats sanitizer mutants overlap timings}
failed=()

step() { # NAME COMMAND...: runs it into a log, shows its end (more if it fails), and goes on
    local name=$1 start=$SECONDS shown=${lines:-3}
    shift
    if "$@" >"$logs/$name.log" 2>&1; then
        echo "== $name: passed in $((SECONDS - start)) s"
    else
        echo "== $name: FAILED ($?) after $((SECONDS - start)) s"
        failed+=("$name")
        shown=60
    fi
    tail -n "$shown" "$logs/$name.log"
}

wants() { [[ " $parts " == *" $1 "* ]]; }

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader

if wants examples; then
    for placement in auto gpu cpu; do
        export GPUVEC_PLACEMENT=$placement
        lines=12 step "examples-$placement" make -C c_examples LIB="$bundle" run
        for example in demo device_loop streams structured mixed black_scholes signal_pipeline exact_file; do
            lines=12 step "$example-$placement" python3 "python_examples/$example.py"
        done
    done
    unset GPUVEC_PLACEMENT
fi

if wants tests; then
    for program in "$bundle"/tests/*; do
        step "rust-$(basename "$program")" "$program"
    done
    # Side by side with pytest-xdist, where it is installed.
    many=() few=()
    python3 -c 'import xdist' 2>/dev/null && many=(-n 6) few=(-n 3 --dist loadfile)
    . tools/test_parts.sh
    run_pytest() { timeout 900 python3 -m pytest -q -p no:cacheprovider --tb=short "$@"; }
    lines=12 step python-most run_pytest "${many[@]}" "${most[@]}"
    lines=12 step python-processes run_pytest "${few[@]}" "${processes[@]}"
    lines=12 step python-alone run_pytest "${alone[@]}"
fi

wants floats && lines=30 step "floats" python3 tools/every_float.py

if wants sanitizer; then
    for tool in memcheck racecheck initcheck synccheck; do
        # Two kernels at once stop racecheck now and then, inside its own wait for a stream.
        [ $tool = racecheck ] && export CUDA_LAUNCH_BLOCKING=1 || unset CUDA_LAUNCH_BLOCKING
        GPUVEC_PLACEMENT=gpu step "sanitizer-$tool" compute-sanitizer --tool "$tool" \
            --error-exitcode 9 --target-processes all python3 tools/sanitized.py
    done
fi

if wants mutants; then
    # Exit status 1: tests failed, as they should.
    shows_wrong_sums() { "$@"; [ $? -eq 1 ]; }
    for mutant in "$bundle"/mutants/*; do
        GPUVEC_TEST_IMAGES=$mutant step "mutant-$(basename "$mutant")" shows_wrong_sums \
            python3 -m pytest -x -q -p no:cacheprovider --tb=no python_tests/devices/test_exact_kernels.py
    done
fi

wants overlap && lines=12 step "overlap" python3 tools/overlap.py
wants load && lines=30 step "load" python3 tools/stress.py load --seconds "${LOAD_SECONDS:-120}"
wants timings && lines=80 step "timings" python3 benches/bench.py --output "$logs"

if wants large; then
    lines=20 step "large" python3 tools/large.py
    lines=20 step "large-sums" python3 -m pytest -q -p no:cacheprovider -m large python_tests/exact
fi

if wants placement; then
    for suite in sweep cold restricted libraries script; do
        lines=45 step "placement-$suite" python3 benches/bench.py --suite "$suite" --output "$logs"
    done
fi

if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}"
    exit 1
fi
echo "everything passed"
