# What one types. The work is done by CMake (CMakePresets.json) and the scripts in scripts/.
#
#   make          build everything in build/
#   make demo     install what is missing, build all but the tests, fetch Whisper base, transcribe
#                 recordings
#   make quick    build, then the tests that take seconds
#   make check    the same set-up as demo, then every test
#   make asan     the quick tests and those of damaged files under the address and undefined-behaviour
#                 sanitizers, in build-asan/
#   make tsan     the tests of threads, streams and batches under the thread sanitizer, in build-tsan/
#   make fuzz     libFuzzer on every reader and parser, FUZZ_SECONDS (60) each, in build-asan/
#   make mutants  test the tests: each fault of tests/mutation/faults.toml must fail one (an hour)
#   make bench    the benchmarks of the CPU kernels (build/vulkan_bench: those of a GPU)
#   make compare  our programs beside others on the same weights, into the README; QUICK=1: in 10 min;
#                 PARTS="speech generate embed serve": only these
#   make word-errors  errors on the whole speech corpus, beside other rules and faster-whisper
#   make site     the documentation site, in build/site
#   make deb      Debian packages of the programs and the library, in build/deb/
#   make abi      write capi/abi/libvesper.abi, the interface that later releases must keep: for a release
#   make format   lay out the sources by .clang-format
#   make clean    remove what was built

JOBS ?= $(shell nproc)
# Warnings are errors where CI is set: whoever builds with a newer compiler need not mend its warnings.
WERROR ?= $(if $(CI),ON,OFF)
# The demonstration needs no tests, which are half of what is built.
TESTS ?= ON
# The thread sanitizer of Debian 12 ends at random where the kernel randomizes addresses by more bits
# than it expects, so they are not randomized where this is allowed.
FIXED_ADDRESSES = $(shell setarch --addr-no-randomize true 2>/dev/null && echo setarch --addr-no-randomize)

.PHONY: build demo check quick asan tsan fuzz mutants bench compare word-errors site format clean setup
.PHONY: setup-sanitizers abi deb

build:
	cmake --preset release -DVESPER_WERROR=$(WERROR) -DVESPER_TESTS=$(TESTS)
	cmake --build --preset release --parallel $(JOBS)

setup:
	scripts/setup.sh

setup-sanitizers:
	scripts/setup.sh sanitizers

demo:
	+MAKE="$(MAKE)" scripts/demo.sh

check: setup
	cmake --preset release -DVESPER_WERROR=$(WERROR) -DVESPER_TESTS=$(TESTS)
	cmake --build --preset release --parallel $(JOBS)
	scripts/fetch-models.sh
	tests/serve/fetch_clients.sh
	bench/word_error_gate.py --fetch
	tests/run.py --preset release --parallel $(JOBS)

quick: build
	tests/run.py --preset release --parallel $(JOBS) --label-regex quick

asan: setup-sanitizers
	cmake --preset asan
	cmake --build --preset asan --parallel $(JOBS)
	tests/run.py --preset asan --parallel $(JOBS)

mutants:
	scripts/fetch-models.sh
	tests/mutation/mutate.py --jobs $(JOBS)

tsan: setup-sanitizers
	cmake --preset tsan
	$(FIXED_ADDRESSES) cmake --build --preset tsan --parallel $(JOBS)
	$(FIXED_ADDRESSES) tests/run.py --preset tsan --parallel $(JOBS)

fuzz: setup-sanitizers
	cmake --preset asan
	cmake --build --preset fuzz --parallel $(JOBS)
	JOBS=$(JOBS) scripts/fuzz.sh

bench:
	cmake --preset release -DVESPER_BENCH=ON -DVESPER_TESTS=$(TESTS)
	cmake --build --preset release --parallel $(JOBS) \
	  --target cpu_bench encoder_bench quantized_bench
	build/cpu_bench --benchmark_min_time=0.1
	build/encoder_bench --benchmark_min_time=0.1
	build/quantized_bench

compare:
	cmake --preset release -DVESPER_BENCH=ON -DVESPER_TESTS=$(TESTS)
	cmake --build --preset release --parallel $(JOBS) \
	  --target transcribe generate embed inspect serve embedding_bench
	scripts/fetch-models.sh
	JOBS=$(JOBS) bench/peers.sh
	bench/recordings.py
	bench/compare.py $(if $(QUICK),--quick) $(PARTS)

word-errors: build
	scripts/fetch-models.sh base silero-vad
	bench/peers.sh venv
	bench/word_error_tables.sh

site: build
	scripts/setup.sh site
	mkdocs build --quiet

abi:
	scripts/abi.py --write

deb:
	scripts/setup.sh packages
	JOBS=$(JOBS) scripts/deb.sh

format:
	git ls-files '*.cc' '*.h' | xargs clang-format -i

clean:
	rm -rf build build-debug build-asan build-tsan build-mutants demo
