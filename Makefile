# gpuvec's commands. `make` lists them.

PYTHON ?= python3
FUZZ_SECONDS ?= 60
FAULT_SECONDS ?= 600
NUMPY_COUNT ?= 100000
# Options of benches/bench.py.
BENCH ?=
# The tests that `make test-wheel` runs: all of them, or in `make test-thorough` those to which the wheel may
# make a difference: how the library and the extension module are found, and what passes through them.
WHEEL_TESTS ?= python_tests
SHORT_WHEEL_TESTS := $(patsubst %,python_tests/package/test_%.py,declarations examples exchange c_exchange extension \
    operations processes settings short_way short_way_arrays) \
    $(addprefix python_tests/,release interface/test_header.py interface/test_ctypes.py process/test_loading.py process/test_exit.py)
VENV := .venv
# The environment of engines that are too large for that of the tests.
ENGINES := target/peers/engines
BIN := $(VENV)/bin
FAKE_DRIVER := $(CURDIR)/target/fake_driver
# Everything here uses cargo's output in ./target, whichever folder the caller's environment or
# cargo's configuration names.
export CARGO_TARGET_DIR := $(CURDIR)/target
unexport CARGO_BUILD_TARGET CARGO_BUILD_TARGET_DIR CARGO_BUILD_BUILD_DIR
PYTHON_EXAMPLES := demo device_loop streams structured mixed black_scholes signal_pipeline exact_file exact_dask exact_mpi
# The checks of `make check-all`, in this order.
CHECKS := lint lint-aarch64 fresh usage test test-thorough test-exhaustive large-sums every-float \
    random-expressions numpy-expressions random-arrays peers function-errors function-bounds \
    fault-injection load random-faults security sanitizers miri fuzz lintian licences test-wheel \
    test-musl reproducible site-check
CHECKS_THAT_PASSED := $(CHECKS:%=%-has-passed)
# The same crates with and without the fake driver, so that cargo builds them once.
# (The extension module of the Python package has none.)
RUST_TESTS := cargo test --profile fast --workspace --exclude gpuvec_python --lib --tests
# Those that may find a driver. (The library's package alone would need another build of cust.)
RUST_TESTS_WITH_A_DRIVER := cargo test --profile fast --workspace --exclude gpuvec_python --lib \
    $(patsubst tests/%.rs,--test %,$(wildcard tests/*.rs)) -- --skip cpu::
# Python tests that take less than seconds and gigabytes.
SHORT := not large and not long and not exhaustive
# Tests that do not depend on the driver that a process finds, besides those marked on_fake_driver.
WITH_ANY_DRIVER := $(addprefix python_tests/,driver install release exact/test_oracles.py interface/test_promotion_table.py \
    expressions/test_function_errors.py::test_error_is_within_the_proved_bound package/test_interrupts.py)
# Long tests of placement auto without a GPU, where a few for each kind of call are enough to show that
# it does what placement cpu does. `make check-all` leaves none out.
LONG_AS_CPU ?= $(addprefix python_tests/,exact process operations/test_results.py package/test_accumulator.py \
    package/test_interrupts.py)
# Tests on the fake driver that take long, as its GPUs are emulated or as they are thousands: placement auto where `gpu`
# takes the same way, or where it takes cores as without a GPU, the largest arrays where shorter ones take it, the kernels
# of operations by themselves, whose bits the tests of operations see, and the programs of the pages. `make check-all`
# leaves none out.
LONG_ON_FAKE_DRIVER ?= $(addprefix python_tests/,package/test_memory.py::test_pinned_memory_lives_as_long_as_its_last_view[AUTO \
    package/test_variance.py::test_many_results[AUTO package/test_variance.py::test_many_results[GPU-std \
    $(addprefix operations/test_results.py::test_,the_family_at_every_edge[AUTO small_arrays_of_every_kind[AUTO in_place[AUTO) \
    operations/test_float_modes.py::test_results_and_modes[AUTO expressions/test_expression_results.py::test_every_length[AUTO \
    operations/test_results.py::test_several_chunks[AUTO operations/test_results.py::test_the_family_in_several_chunks[AUTO \
    $(addprefix operations/test_combinations.py::test_large_arrays_of_every_kind[gpuvec_,axpy_f64-3 div_f64-3 scale_f64-3) \
    devices/test_expression_kernels.py::test_the_bits[op_ interface/test_pages.py)
ON_FAKE_DRIVER := LD_LIBRARY_PATH=$(FAKE_DRIVER)

.PHONY: $(CHECKS_THAT_PASSED) help demo test build install uninstall reference docs links site-check lint lint-aarch64 fresh baselines kernels usage fake-driver rust-tests test-rust test-c test-python test-thorough test-interleavings test-sanitized test-long test-as-cpu test-exhaustive test-fake-driver coverage fault-injection large-sums every-float random-expressions numpy-expressions random-arrays peers function-errors function-bounds load random-faults security sanitizers miri fuzz lintian licences dist test-wheel test-aarch64 test-musl reproducible check-all bench gpu-bundle clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build $(VENV)/ready ## set up, build, and run the C and Python examples on real arrays
	$(MAKE) -C c_examples run
	@set -e; for example in $(PYTHON_EXAMPLES); do \
	    echo "--- $$example.py"; PYTHONPATH=python $(BIN)/python python_examples/$$example.py; \
	done

test: ## set up and run the tests: Rust, C and Python
	# The release build has work for one core in most of its time, and pip waits for the network.
	$(MAKE) -j4 build fake-driver rust-tests $(VENV)/ready
	$(MAKE) test-rust test-c test-python

test-thorough: ## longer tests: interleavings, sanitizers, the fake driver, the wheel
	# The wheel's build and valgrind have work for one core in most of their time.
	$(MAKE) -j3 test-interleavings test-sanitized test-wheel test-aarch64 WHEEL_TESTS="$(SHORT_WHEEL_TESTS) -m '$(SHORT) and not as_cpu'"
	$(MAKE) test-long test-as-cpu test-fake-driver

build: ## build target/release/libgpuvec.so and include/gpuvec.h
	cargo build --release

# BUILT is a library that exists already.
install: $(if $(BUILT),,target/release/libgpuvec.so)
install uninstall: ## install the library for other programs (PREFIX=/usr/local), or remove it
	@install/install.sh $@

# `sudo make install` after `make build` runs no cargo, which root may lack.
target/release/libgpuvec.so:
	$(MAKE) build

reference: ## write the header's reference, target/reference/html, by Doxygen
	mkdir -p target/reference
	doxygen docs/Doxyfile

docs: build $(VENV)/docs ## build the site, target/docs, by Sphinx
	$(BIN)/sphinx-build -q -W --keep-going -j auto -d target/doctrees docs target/docs

links: build $(VENV)/docs ## check the site's links to other sites, over the network
	$(BIN)/sphinx-build -q -b linkcheck -d target/doctrees docs target/links

site-check: docs $(VENV)/browser ## look at every page of the site in a browser, with screenshots in target/site
	$(BIN)/python tools/site_check.py --screenshots target/site

lint: $(VENV)/ruff ## check formats, lints and types
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --release --no-deps --document-private-items
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=python $(BIN)/mypy --strict python python_tests/package/typed_uses.py

lint-aarch64: $(VENV)/ruff ## clippy for the other processor; needs Debian, as test-aarch64 does
	# The wheel's folder: what build scripts and macros depend on is compiled once for both.
	tools/aarch64.sh cargo clippy --release --target-dir target/wheel/2.17 -- -D warnings

fresh: build $(VENV)/ready $(VENV)/kernels $(VENV)/functions ## check that the header, the PTX and the functions' constants match their sources
	# Whatever build.rs writes.
	git diff --exit-code -- include c_examples python/gpuvec/_library.py docs/reference
	$(BIN)/python kernels/build.py --check
	$(BIN)/python tools/fast_functions.py | rustfmt --edition 2024 | diff - crates/math/src/fast/constants.rs

baselines: build $(VENV)/ready ## add new functions to the baselines: the binary interface, and the hashes of results
	UPDATE_ABI=1 cargo test --profile fast --test abi
	$(BIN)/python python_tests/support/result_hashes.py > target/results.sha256
	mv target/results.sha256 python_tests/operations/results.sha256

kernels: $(VENV)/ready $(VENV)/kernels ## compile kernels/*.cu to the PTX that the library carries
	$(BIN)/python kernels/build.py

usage: $(VENV)/ready $(VENV)/kernels ## registers and spills of each kernel, and of expressions (ARCHITECTURES= for all)
	cargo run --release -q -p gpuvec_ptx --example formulas -- target/formulas --texts
	$(BIN)/python kernels/build.py --usage $(ARCHITECTURES) target/formulas

fake-driver: ## build the fake driver for tests, target/fake_driver/libcuda.so.1
	cargo build --release -p gpuvec_fake_driver
	mkdir -p $(FAKE_DRIVER)
	# In place, the copy would change under processes that have it open.
	cp --remove-destination target/release/libgpuvec_fake_driver.so $(FAKE_DRIVER)/libcuda.so.1

rust-tests: ## compile the Rust tests
	$(RUST_TESTS) --no-run

test-rust: build ## the Rust tests
	$(RUST_TESTS)

test-c: build ## the C examples; the header as C and C++
	$(MAKE) -C c_examples run header

test-python: build fake-driver $(VENV)/ready ## the Python tests, but those of test-long
	tools/test_python.sh $(BIN)/python -m "$(SHORT) and not as_cpu"

test-interleavings: ## every interleaving of the threads that share a piece of work
	RUSTFLAGS="--cfg loom" cargo test -p gpuvec_interleavings --target-dir target/loom

test-sanitized: build ## the C examples under sanitizers and, if it is installed, valgrind
	$(MAKE) -C c_examples sanitize
	@if command -v valgrind >/dev/null; then $(MAKE) -C c_examples valgrind; \
	else echo "valgrind is not installed: the examples did not run under it"; fi

test-long: build fake-driver $(VENV)/ready ## the long Python tests
	tools/test_python.sh $(BIN)/python -m "long and not large and not exhaustive and not as_cpu"

test-as-cpu: build $(VENV)/ready ## the Python tests of placement auto without a GPU (LONG_AS_CPU= for all)
	tools/test_python.sh $(BIN)/python -m "as_cpu and not large and not exhaustive" $(LONG_AS_CPU:%=--deselect=%)

test-exhaustive: build fake-driver $(VENV)/ready ## combinations; `make test-thorough` tries some of them
	tools/test_python.sh $(BIN)/python -m exhaustive

test-fake-driver: fake-driver build $(VENV)/ready ## the tests on the fake driver, where the GPU's path runs
	cargo run --release -q -p gpuvec_ptx --example formulas -- target/gpu/expressions/operations --operations kernels/ptx
	$(ON_FAKE_DRIVER) $(RUST_TESTS_WITH_A_DRIVER)
	$(ON_FAKE_DRIVER) GPUVEC_PLACEMENT=gpu $(MAKE) -C c_examples run
	$(ON_FAKE_DRIVER) GPUVEC_TEST_PLACEMENTS=gpu,auto tools/test_python.sh $(BIN)/python -m "$(SHORT) and not on_fake_driver" $(patsubst %,--deselect='%',$(WITH_ANY_DRIVER) $(LONG_ON_FAKE_DRIVER))
	$(ON_FAKE_DRIVER) $(BIN)/python tools/sanitized.py --short

coverage: fake-driver build $(VENV)/ready ## the lines of src and crates that the tests run, in a table (with llvm-19)
	RUST_TESTS="$(RUST_TESTS)" SHORT="$(SHORT)" WITH_ANY_DRIVER="$(WITH_ANY_DRIVER)" FAKE_DRIVER=$(FAKE_DRIVER) \
		tools/coverage.sh $(BIN)/python

fault-injection: fake-driver build $(VENV)/ready ## make every driver call fail in turn, in every way, in half an hour on two cores
	$(ON_FAKE_DRIVER) $(BIN)/python python_tests/support/fault_injection.py

every-float: ## every function of one f32 on all 2^32 inputs, those of two on 2^27 and 10^7 hard ones, in half an hour on two cores
	RUSTFLAGS="-C target-cpu=native" cargo test --release --target-dir target/every-float -p gpuvec_math \
		--lib --test rounding --test two_arguments -- --ignored --test-threads=1
	RUSTFLAGS="-C target-cpu=native" cargo test --release --target-dir target/every-float -p gpuvec \
		--lib fast_tests -- --ignored --test-threads=1

function-errors: $(VENV)/functions ## the errors of the functions of f64, on a million arguments each, and of two f32, against MPFR
	RUSTFLAGS="-C target-cpu=native" cargo build --release --target-dir target/every-float -p gpuvec_math \
		--example evaluate --example evaluate_pairs
	$(BIN)/python tools/function_errors.py target/every-float/release/examples/evaluate
	$(BIN)/python tools/pair_errors.py target/every-float/release/examples/evaluate_pairs

function-bounds: $(VENV)/functions ## prove bounds of the errors of functions, in three minutes of CPU time
	$(BIN)/python tools/function_bounds/two_arguments.py
	mkdir -p target/function_bounds
	cargo run --release -q -p gpuvec_math --example record > target/function_bounds/recordings
	$(BIN)/python tools/function_bounds/double.py target/function_bounds/recordings

random-expressions: ## 10^5 random expressions as PTX in the emulator, on arrays of any strides, along axes: in minutes
	cargo test --profile fast -p gpuvec_ptx -- --ignored --nocapture

numpy-expressions: build $(VENV)/ready ## 10^5 random expressions beside NumPy, in a minute on two cores (NUMPY_COUNT=100000)
	$(BIN)/python tools/numpy_expressions.py --count $(NUMPY_COUNT)

random-arrays: build $(VENV)/ready ## 10^5 random calls on arrays of any shapes and strides beside NumPy (NUMPY_COUNT=100000)
	$(BIN)/python tools/numpy_expressions.py --arrays --count $(NUMPY_COUNT)

peers: build $(VENV)/ready $(ENGINES)/ready ## numexpr's own tests, and pandas', on gpuvec; functions of Spark and Ray: docs/reference/peers.md
	$(BIN)/python tools/peers/run.py
	$(ENGINES)/bin/python -m pytest -q -rs tools/peers/test_engines.py

large-sums: build $(VENV)/ready ## exact sums of 2^28 elements
	$(BIN)/python -m pytest -q -m large python_tests/exact

load: fake-driver build $(VENV)/ready ## 64 threads of mixed calls for two minutes, on the fake driver
	$(ON_FAKE_DRIVER) FAKE_DRIVER_DELAY=200 $(BIN)/python tools/load.py

random-faults: fake-driver build $(VENV)/ready ## random faults of the fake driver under eight threads (FAULT_SECONDS=600)
	$(ON_FAKE_DRIVER) $(BIN)/python tools/random_faults.py --seconds $(FAULT_SECONDS)

security: build ## setuid processes, files, sockets, the driver's name (as root, with strace)
	tools/security.sh

sanitizers: ## the Rust tests under AddressSanitizer and ThreadSanitizer, with and without the fake driver
	tools/sanitizers.sh

miri: ## callers' values at any address, in Miri, which nightly Rust has
	tools/miri.sh

fuzz: ## any arguments in any order, arrays of any strides, against models; any states, texts (FUZZ_SECONDS=60)
	tools/fuzz.sh $(FUZZ_SECONDS)
	tools/fuzz.sh $(FUZZ_SECONDS) arrays
	tools/fuzz.sh $(FUZZ_SECONDS) states
	tools/fuzz.sh $(FUZZ_SECONDS) expressions
	tools/fuzz.sh $(FUZZ_SECONDS) texts

lintian: build ## Debian packages of what `make install` installs, checked by lintian
	tools/lintian.sh

licences: ## licences and sources of every package, offline; the notices that go with the library
	$(PYTHON) tools/licences.py
	$(PYTHON) release/third_party.py --check

dist: $(VENV)/release ## make the files of a release in dist/: wheel, sources, archive for C, checksums
	release/dist.sh

test-aarch64: dist ## the release's library for AArch64 in QEMU: examples, hashes of results, the loops' tests
	tools/test_aarch64.sh target/wheel/2.17/aarch64-unknown-linux-gnu/release $(AARCH64_TESTS)

test-wheel: dist build fake-driver ## install the wheel in an empty environment and run the tests on it
	release/test_wheel.sh $(WHEEL_TESTS)

test-musl: $(VENV)/release ## the library for musl: examples, hashes of results, the Rust tests; needs Debian
	tools/test_musl.sh

reproducible: dist ## build the wheel again from the source distribution, offline: the same bytes
	release/reproducible.sh

check-all: export LONG_AS_CPU :=
check-all: export AARCH64_TESTS := --all
check-all: export LONG_ON_FAKE_DRIVER :=
check-all: $(CHECKS_THAT_PASSED) ## everything: takes two hours on two cores

$(CHECKS_THAT_PASSED): %-has-passed: %
	@printf '%s\n' $(CHECKS) | awk '$$0 == "$*" { print "==== check-all: $*, " NR " of $(words $(CHECKS))" }'

bench: build $(VENV)/benches ## ceilings, other libraries and gpuvec side by side; the page is target/bench/page
	$(BIN)/python benches/bench.py $(BENCH)
	$(BIN)/python benches/page.py target/bench/bench.json target/bench/page

gpu-bundle: build fake-driver $(VENV)/kernels ## gather what a GPU machine without Rust needs, in target/gpu
	tools/gpu_bundle.sh
	$(BIN)/python tools/kernel_mutants.py

clean: ## remove everything that was built
	rm -rf target dist $(VENV)

$(VENV)/ready: python_tests/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -r python_tests/requirements.txt
	touch $@

$(ENGINES)/ready: tools/peers/engines.txt python_tests/requirements.txt
	$(PYTHON) -m venv $(ENGINES)
	$(ENGINES)/bin/pip install --quiet -r tools/peers/engines.txt
	touch $@

# What a part of the work needs beside the tests' packages, in the same environment.
$(VENV)/kernels: kernels/requirements.txt
$(VENV)/release: release/requirements.txt
$(VENV)/benches: benches/requirements.txt
$(VENV)/docs: docs/requirements.txt
$(VENV)/browser: docs/browser.txt $(VENV)/docs
$(VENV)/functions: crates/math/requirements.txt
$(VENV)/ruff: tools/requirements.txt
$(addprefix $(VENV)/,kernels release benches docs browser functions ruff): $(VENV)/ready
	# One after the other, with make -j too.
	flock $(VENV) $(BIN)/pip install --quiet -r $(filter %.txt,$^)
	touch $@
