# The front door: every target is a few words that call CMake, ctest or a script of tools/. CMakePresets.json says how things are built.
# CUDA kernels are compiled for the cards of this machine; without one the tests compile them for Hopper, and the program goes without.
# CUDA_TARGETS=80,89,90a,100 makes a program for others' machines.
#   make run ARGS='-p "What is 17 + 25?" --greedy --no-thinking'      make test
ARGS ?= -p "What is the capital of France?" --greedy --no-thinking
FUZZ_RUNS ?= 1000000
CUDA_TARGETS ?= $(shell tools/cuda_targets.sh)
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)
CTEST = ctest --output-on-failure -j $(JOBS) --test-dir

.PHONY: all run test setup setup-test setup-dev setup-arm asan tsan clang libc++ bench compare fuzz test-full test-long test-tokens test-oracle test-gpu test-clients test-schema test-agents test-page test-load test-bare test-arm format tidy clean

all: setup lily

# Everything that is no answer goes to standard error.
# --- use ---------------------------------------------------------------------------------------------------------------
run: all
	@build/release/lily run $(ARGS)

# Without tests at first, so that GoogleTest is not needed to get an answer; `make test` turns them on and they stay on.
build/release/build.ninja: | setup
	@cmake --preset release -DLILY_TESTS=OFF -DLILY_CUDA_TARGETS=$(or $(CUDA_TARGETS),none) > /dev/null

.PHONY: lily
lily: build/release/build.ninja
	@cmake --build --preset release --target lily >&2

# --- test --------------------------------------------------------------------------------------------------------------
test: setup-test
	cmake --preset release -DLILY_TESTS=ON -DLILY_CUDA_TARGETS=$(or $(CUDA_TARGETS),90a)
	cmake --build --preset release
	$(CTEST) build/release

# The same tests with memory and undefined-behaviour checks, with race checks, and from the other compiler.
# ThreadSanitizer takes 16 GB for its usual history of each of the emulator's thousands of fibers, and seconds for each drawn case.
tsan: export TSAN_OPTIONS = history_size=0
tsan: export RC_PARAMS = max_success=10
asan tsan clang: setup-dev
	cmake --preset $@ && cmake --build --preset $@ && $(CTEST) build/$@ --timeout 7200

# Every module against libc++, Apple's library. Not linked: Debian's GoogleTest, fmt and simdjson are built on libstdc++.
libc++: setup-dev
	cmake --preset clang-libc++ -DLILY_TESTS=OFF && cmake --build --preset clang-libc++ --target modules

# build/release/*_bench: each says at its top what it measures and what it takes.
bench: setup-test
	cmake --preset release -DLILY_TESTS=ON && cmake --build --preset release --target benches

fuzz: setup-dev
	tools/fuzz.sh $(FUZZ_RUNS) $(FUZZ_NAMES)

# Slow checks that the suite leaves out; README.md says what each needs and takes.
test-full: lily
	tools/full_size.sh
test-long: lily
	tools/long_context.sh
compare: lily
	tools/compare/compare.sh
test-tokens: setup-test
	tools/fetch_real_tokenizer.sh build/realtok
	cmake --preset release -DLILY_TESTS=ON && cmake --build --preset release --target text_test
	$(CTEST) build/release -R '^text$$' --verbose
test-oracle:
	tools/pocket/check_goldens.sh
test-gpu: setup-test
	cmake --preset release -DLILY_TESTS=ON && cmake --build --preset release --target lily cuda_test engine_test
	build/release/cuda_test && build/release/engine_test --gtest_filter='*OnACard*'
	for test in eval server_backends; do LILY_E2E_FULL=1 python3 -B tests/e2e/$${test}_test.py $(CURDIR)/build/release/lily $(CURDIR) || exit 1; done
test-clients: lily
	tools/clients.sh
test-schema: lily
	tools/clients.sh schema
test-agents: lily
	tools/clients.sh agents
test-page: lily
	tools/page.sh
# LOAD="2000 8": requests and clients.
test-load: lily
	python3 -B tests/clients/load.py $(LOAD)
	LILY_E2E_FULL=1 python3 -B tests/e2e/server_growth_test.py $(CURDIR)/build/release/lily $(CURDIR)
test-bare:
	tools/bare_root.sh
test-arm: setup-arm lily
	tools/arm_sysroot.sh build/arm64-sysroot
	cmake --preset arm64 -DLILY_TESTS=ON && cmake --build --preset arm64 --target lily backend_test
	tools/arm_check.py build/release/lily build/arm64

# --- house -------------------------------------------------------------------------------------------------------------
setup:
	@tools/setup.sh run
setup-test:
	@tools/setup.sh test
setup-dev:
	@tools/setup.sh dev
setup-arm:
	@tools/setup.sh arm

format: setup-dev
	git ls-files '*.cc' '*.h' | xargs clang-format -i
tidy: setup-dev
	cmake --preset clang && git ls-files 'src/*.cc' | xargs -n 4 -P $(JOBS) clang-tidy --quiet -p build/clang

clean:
	rm -rf build
