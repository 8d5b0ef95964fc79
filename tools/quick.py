"""Builds the library by cargo's profile `quick`, and runs the tests near a change.

    make quick                                      the tests near the uncommitted changes
    make quick TESTS=python_tests/streams           these tests of pytest, and options of it
    make quick TESTS="-p gpuvec_exact window"       options of cargo test

Without uncommitted changes the last commit counts. Takes seconds where `make test` takes minutes,
and finds less: the library is hardly optimised, and only a few tests run on the fake driver.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "target/quick"
FAKE_DRIVER = ROOT / "target/fake_driver/libcuda.so.1"
MARKS = "not large and not long and not exhaustive and not as_cpu"

# The tests of expressions, but for those of the driver and those that compare functions with MPFR.
LANGUAGE = " ".join(
    f"expressions/{path.name}"
    for path in sorted((ROOT / "python_tests/expressions").glob("test_*.py"))
    if path.name not in ("test_expression_driver.py", "test_function_errors.py")
)
# The tests near the files in a folder: options of `cargo test`, and tests in python_tests. A folder
# inside another one comes first.
NEAR = {
    "crates/axes": (
        "-p gpuvec_axes",
        "expressions/test_expression_axes.py package/test_nd_shapes.py",
    ),
    "crates/cost": ("-p gpuvec_cost", "driver/test_auto.py interface/test_last_run.py"),
    "crates/emulator": ("-p gpuvec_ptx", "expressions/test_expression_driver.py"),
    "crates/exact": ("-p gpuvec_exact", "exact"),
    "crates/expr": ("-p gpuvec_expr", LANGUAGE),
    "crates/fake_driver": ("-p gpuvec_fake_driver", "driver"),
    "crates/interleavings": ("-p gpuvec --lib pool::", "process/test_pool.py"),
    "crates/math": ("-p gpuvec_math", "expressions/test_function_errors.py"),
    "crates/ops": ("-p gpuvec_ops", "operations"),
    "crates/oracle": ("-p gpuvec_oracle", ""),
    "crates/ptx": ("-p gpuvec_ptx", "expressions/test_expression_driver.py"),
    "crates/python": ("", "package"),
    "include": ("-p gpuvec --test abi", "interface/test_header.py"),
    "kernels": (
        "-p gpuvec_ptx",
        "exact/test_kernels_on_host.py exact/test_by_key_on_host.py exact/test_kernel_rounding.py",
    ),
    "python/gpuvec": ("", "package"),
    "src/abi": ("-p gpuvec --test abi --test surface", "errors operations/test_results.py"),
    "src/arch": (
        "-p gpuvec --lib cpu::",
        "operations/test_results.py operations/test_float_modes.py",
    ),
    "src/call": ("-p gpuvec --lib call::", "errors operations interface/test_last_run.py"),
    "src/cpu": ("-p gpuvec --lib cpu::", "operations expressions/test_expression_results.py exact"),
    "src/cuda": ("-p gpuvec --lib cuda::", "driver streams devices"),
    "src/objects": ("-p gpuvec --lib objects::", "streams memory exact/test_accumulators.py"),
    "src/pool": ("-p gpuvec --lib pool::", "process/test_pool.py process/test_threads.py"),
    "src/process": ("-p gpuvec --lib process::", "process interface/test_settings.py"),
    "src/run": ("-p gpuvec --lib run::", "operations expressions/test_expression_strides.py"),
    "src": ("-p gpuvec --test surface --test locks", "operations/test_results.py errors"),
    "docs": ("", "interface/test_docs.py interface/test_tree.py interface/test_pages.py"),
}
# The fake driver contains these.
CRATES_IN_FAKE_DRIVER = ("emulator", "exact", "fake_driver", "ops", "ptx")
IN_FAKE_DRIVER = ("kernels", *(f"crates/{crate}" for crate in CRATES_IN_FAKE_DRIVER))


def changed() -> list[str]:
    """Returns the paths that differ from the last commit, or that it changed."""

    def lines(*command: str) -> list[str]:
        return subprocess.check_output(["git", *command], cwd=ROOT, text=True).splitlines()

    now = lines("diff", "--name-only", "HEAD") + lines("ls-files", "-o", "--exclude-standard")
    return now or lines("diff", "--name-only", "HEAD~1", "HEAD")


def near(paths: list[str]) -> tuple[list[str], list[str]]:
    """Returns the options of `cargo test` and of pytest for changes in these files, each once."""
    rust, python = {}, {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        if name.startswith("test_") and name.endswith(".py"):
            python[path] = None
        elif folder == "tests":
            rust[f"-p gpuvec --test {name.removesuffix('.rs')}"] = None
        prefixes = [prefix for prefix in NEAR if path.startswith(f"{prefix}/")]
        if prefixes:
            tests, options = NEAR[max(prefixes, key=len)]
            rust[tests] = None
            in_folder = [
                each if each.startswith("-") else f"python_tests/{each}" for each in options.split()
            ]
            python.update(dict.fromkeys(in_folder))
    return [tests for tests in rust if tests], list(python)


def run(*command: str) -> None:
    """Runs a command, and ends as it does if it fails."""
    print("==", *command, flush=True)
    variables = {**os.environ, "GPUVEC_LIB": str(BUILT / "libgpuvec.so")}
    code = subprocess.run(command, cwd=ROOT, env=variables).returncode
    if code:
        sys.exit(code)


def main(given: list[str]) -> None:
    """Builds, and runs the given tests, or the tests near the change."""
    paths = changed()
    run("cargo", "build", "--profile", "quick")
    if not FAKE_DRIVER.exists() or any(path.startswith(IN_FAKE_DRIVER) for path in paths):
        run("cargo", "build", "--profile", "quick", "-p", "gpuvec_fake_driver")
        FAKE_DRIVER.parent.mkdir(parents=True, exist_ok=True)
        FAKE_DRIVER.unlink(missing_ok=True)
        shutil.copy(BUILT / "libgpuvec_fake_driver.so", FAKE_DRIVER)
    if given[:1] == ["-p"]:
        rust, python = [" ".join(given)], []
    else:
        rust, python = ([], given) if given else near(paths)
    if not rust and not python:
        sys.exit(f"no tests are near {', '.join(paths)}: name some by TESTS")
    for options in rust:
        run("cargo", "test", "--profile", "quick", *options.split())
    if python:
        run(sys.executable, "-m", "pytest", "-q", "-n", str(os.cpu_count()), "-m", MARKS, *python)


if __name__ == "__main__":
    main(sys.argv[1:])
