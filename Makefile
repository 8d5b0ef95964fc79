# gpuvec's commands. `make` lists them.

PYTHON ?= python3
# `make quick TESTS=…` runs these tests, `make test-wheel WHEEL_TESTS=…` passes options to pytest, and
# `make bench BENCH=…` to benches/bench.py; PROCESSORS=x86_64 releases for it alone; ALL=1 leaves out no long test.
# cargo builds in ./target, whichever folder the caller's environment or cargo's configuration names.
export CARGO_TARGET_DIR := $(CURDIR)/target
unexport CARGO_BUILD_TARGET CARGO_BUILD_TARGET_DIR CARGO_BUILD_BUILD_DIR
VENV := .venv
BIN := $(VENV)/bin
ENGINES := target/peers/engines
FAKE_DRIVER := $(CURDIR)/target/fake_driver
ON_FAKE_DRIVER := LD_LIBRARY_PATH=$(FAKE_DRIVER)
PYTHON_EXAMPLES := demo device_loop streams structured mixed black_scholes signal_pipeline exact_file exact_groups exact_dask exact_mpi
CHECKS := lint-aarch64 fresh usage large-sums every-float random-expressions numpy-expressions random-arrays peers \
    function-errors function-bounds fault-injection load random-faults security sanitizers miri fuzz lintian licences \
    test-musl reproducible site-check reference
# The crates that have tests. With and without the fake driver they are the same, so that cargo builds them once.
RUST_CRATES := --workspace --exclude gpuvec_python --exclude gpuvec_fake_driver
RUST_TESTS := cargo test --profile fast $(RUST_CRATES) --lib --tests
# The tests that may find a driver. (The library's package alone would need another build of cust.)
RUST_TESTS_WITH_A_DRIVER := cargo test --profile fast $(RUST_CRATES) --lib \
    $(patsubst tests/%.rs,--test %,$(wildcard tests/*.rs)) -- --skip cpu::
# pytest.ini explains the marks.
TEST_PYTHON := tools/test_python.sh $(BIN)/python -m
SHORT := not large and not long and not exhaustive
WITHOUT_DRIVER := $(SHORT) and not as_cpu
WITH_DRIVER := $(SHORT) and not on_fake_driver and not any_driver

.PHONY: $(CHECKS) baselines links $(shell sed -n 's/^\([a-z0-9 -]*\):.*\#\#.*/\1/p' Makefile)

help: ## list the commands
	@sed -nE 's/^([a-z0-9 -]*):.*## (.*)/\1\t\2/p' Makefile | awk -F '\t' '{ printf "  make %-18s %s\n", $$1, $$2 }'
	@tools/check.sh

demo: build $(VENV)/ready ## set up, build, and run the C and Python examples on real arrays
	$(MAKE) -C c_examples run
	@set -e; for example in $(PYTHON_EXAMPLES); do \
	    echo "--- $$example.py"; PYTHONPATH=python $(BIN)/python python_examples/$$example.py; done

quick: $(VENV)/ready ## build in seconds, and run the tests near the change, or those that TESTS names
	$(BIN)/python tools/quick.py $(TESTS)

build: ## build target/release/libgpuvec.so and include/gpuvec.h
	cargo build --release
# BUILT names a library that exists. `sudo make install` after `make build` runs no cargo, which root may lack.
install: $(if $(BUILT),,target/release/libgpuvec.so)
install uninstall: ## install the library for other programs (PREFIX=/usr/local), or remove it
	@install/install.sh $@
target/release/libgpuvec.so:
	$(MAKE) build

kernels: $(VENV)/kernels ## compile kernels/*.cu to the PTX that the library carries
	$(BIN)/python kernels/build.py
docs: build $(VENV)/docs ## build the site, target/docs, by Sphinx
	$(BIN)/sphinx-build -q -W --keep-going -j auto -d target/doctrees docs target/docs

lint: $(VENV)/tools ## check formats, lints and types
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --release --no-deps --document-private-items
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=python $(BIN)/mypy --strict python python_tests/package/typed_uses.py

test: ## set up and run the tests: Rust, C and Python
	# The release build has work for one core in most of its time, and pip waits for the network.
	$(MAKE) -j4 build fake-driver rust-tests $(VENV)/ready
	$(MAKE) -j2 test-rust test-c test-python

fake-driver: ## build the fake driver for tests, target/fake_driver/libcuda.so.1
	cargo build --profile fast -p gpuvec_fake_driver
	mkdir -p $(FAKE_DRIVER)
	# In place, the copy would change under processes that have it open.
	cp --remove-destination target/fast/libgpuvec_fake_driver.so $(FAKE_DRIVER)/libcuda.so.1
rust-tests: ## compile the Rust tests
	$(RUST_TESTS) --no-run
test-rust: build ## the Rust tests
	$(RUST_TESTS)
test-c: build ## the C examples; the header as C and C++
	$(MAKE) -C c_examples run header
test-python: build fake-driver $(VENV)/ready ## the Python tests, without those of the other commands
	$(TEST_PYTHON) "$(WITHOUT_DRIVER)"

test-thorough: ## longer tests: interleavings, sanitizers, the fake driver, the wheel
	# Most of them have work for one core in much of their time.
	$(MAKE) -j3 test-aarch64 test-interleavings test-sanitized test-wheel test-long test-fake-driver $(if $(ALL),test-as-cpu) \
	    $(if $(ALL),,BUILT=target/release/libgpuvec.so PROCESSORS=x86_64 WHEEL_TESTS="-m 'wheel and $(WITHOUT_DRIVER)'")
test-interleavings: ## every interleaving of the threads that share a piece of work
	RUSTFLAGS="--cfg loom" cargo test -p gpuvec_interleavings --target-dir target/loom
test-sanitized: build ## the C examples under sanitizers and, if it is installed, valgrind
	@command -v valgrind >/dev/null || echo "valgrind is not installed: the examples do not run under it"
	$(MAKE) -C c_examples sanitize $(if $(shell command -v valgrind),valgrind)
test-long: build fake-driver $(VENV)/ready ## the long Python tests
	$(TEST_PYTHON) "long and not large and not exhaustive and not as_cpu"
test-as-cpu: build $(VENV)/ready ## the Python tests of placement auto without a GPU
	$(TEST_PYTHON) "as_cpu and not large and not exhaustive"
test-exhaustive: build fake-driver $(VENV)/ready ## combinations; `make test-thorough` tries some of them
	$(TEST_PYTHON) exhaustive
test-fake-driver: fake-driver build $(VENV)/ready ## the tests on the fake driver, where the GPU's path runs (ALL=1 for all)
	cargo run --profile fast -q -p gpuvec_ptx --example formulas -- target/gpu/expressions/operations --operations kernels/ptx
	$(ON_FAKE_DRIVER) $(RUST_TESTS_WITH_A_DRIVER)
	# In a folder of their own: valgrind runs the others meanwhile.
	$(ON_FAKE_DRIVER) GPUVEC_PLACEMENT=gpu $(MAKE) -C c_examples run BUILD=../target/c_examples/on_fake_driver
	$(ON_FAKE_DRIVER) GPUVEC_TEST_PLACEMENTS=gpu,auto $(TEST_PYTHON) \
	    "$(WITH_DRIVER) $(if $(ALL),,and not slow_on_fake_driver and not as_gpu)"
	$(ON_FAKE_DRIVER) $(BIN)/python tools/sanitized.py --short $(if $(ALL),,--sample)
coverage: fake-driver build $(VENV)/ready ## the lines of src and crates that the tests run, in a table (with llvm-19)
	RUST_TESTS="$(RUST_TESTS)" tools/coverage.sh $(BIN)/python $(FAKE_DRIVER) "$(WITHOUT_DRIVER)" "$(WITH_DRIVER)"

dist: $(VENV)/release $(if $(BUILT),build) ## make the files of a release in dist/: wheels, sources, archives for C, checksums
	release/dist.sh $(PROCESSORS)
test-wheel: dist build fake-driver ## install the wheel in an empty environment and run the tests on it
	release/test_wheel.sh $(WHEEL_TESTS)
test-aarch64: $(VENV)/ready $(if $(ALL),dist) ## AArch64 in QEMU: examples, hashes of results, the loops' tests (ALL=1: the release's)
	tools/test_aarch64.sh $(if $(ALL),target/wheel/2.17/aarch64-unknown-linux-gnu/release)

check-all: export ALL := 1
check-all: ## everything: takes two hours on two cores
	@set -e; for check in lint test test-thorough test-exhaustive $(CHECKS); do \
	    echo "==== check-all: $$check"; $(MAKE) $$check; done
lint-aarch64 licences: $(VENV)/tools
fresh: build $(VENV)/kernels $(VENV)/functions
usage: $(VENV)/kernels
function-errors function-bounds: $(VENV)/functions
baselines large-sums numpy-expressions random-arrays peers: build $(VENV)/ready
peers: $(ENGINES)/ready
fault-injection load random-faults: build fake-driver $(VENV)/ready
security lintian: build
test-musl: $(VENV)/release
reproducible: dist
site-check: docs $(VENV)/browser
links: build $(VENV)/docs
$(CHECKS) baselines links:
	tools/check.sh $@

bench: build $(VENV)/benches ## ceilings, other libraries and gpuvec side by side; the page is target/bench/page
	$(BIN)/python benches/bench.py $(BENCH)
	$(BIN)/python benches/page.py target/bench/bench.json target/bench/page
gpu-bundle: build fake-driver $(VENV)/kernels ## gather what a GPU machine without Rust needs, in target/gpu
	tools/gpu_bundle.sh
	$(BIN)/python tools/kernel_mutants.py
clean: ## remove everything that was built
	rm -rf target dist $(VENV)

$(VENV)/ready: python_tests/requirements.txt
$(ENGINES)/ready: tools/peers/engines.txt python_tests/requirements.txt
$(VENV)/ready $(ENGINES)/ready: %/ready:
	$(PYTHON) -m venv $*
	$*/bin/pip install --quiet --no-compile -r $<
	touch $@
# Packages for a part of the work, in the same environment.
FOLDERS := $(addprefix $(VENV)/,kernels release benches docs tools)
$(FOLDERS): $(VENV)/%: %/requirements.txt
$(VENV)/functions: crates/math/requirements.txt
$(VENV)/browser: docs/browser.txt $(VENV)/docs
$(FOLDERS) $(VENV)/functions $(VENV)/browser: $(VENV)/ready
	# One after the other, with make -j too.
	flock $(VENV) $(BIN)/pip install --quiet --no-compile -r $(filter %.txt,$^)
	touch $@
