#!/usr/bin/env bash
# Collects the library, the Python package's extension module, the fake driver, the Rust test programs and
# the benchmarks' kernels in target/gpu, for a machine with a GPU but without Rust, where tools/on_gpu.sh uses
# them. The fake driver has a name by which no program takes it for the machine's own driver.
set -euo pipefail
cd "$(dirname "$0")/.."
bundle=target/gpu
rm -rf "$bundle"
mkdir -p "$bundle/tests"
cp -P target/release/libgpuvec.so* target/release/libgpuvec_python.so "$bundle/"
cp target/fake_driver/libcuda.so.1 "$bundle/libfake_driver.so"
cargo test --profile fast --no-run --message-format=json 2>/dev/null |
    python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    # tests/surface.rs reads what cargo says of the crates.
    is_program = message.get("profile", {}).get("test") and message.get("executable")
    if is_program and message["target"]["name"] != "surface":
        print(message["executable"], message["target"]["name"])
' | while read -r program name; do
    cp "$program" "$bundle/tests/$name"
done
strip "$bundle"/tests/*
cargo run --release -q -p gpuvec_ptx --example formulas "$bundle/expressions"
PYTHONPATH=benches:python_tests/support .venv/bin/python -c \
    'import device; device.BUNDLED.write_bytes(device.image())'
du -sh "$bundle"
