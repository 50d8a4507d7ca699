# FastEEP's front door. `make serve` and `make test` work on a fresh Debian 12 machine; a second run
# does no work twice.
#   make build   the release program, build/release/fasteep
#   make serve   build, then serve the bundled model on port 8000 with 4 ranks
#   make test    style and room checks, unit tests, end-to-end tests
#   make test-sanitizers   the same under AddressSanitizer and ThreadSanitizer, and short fuzzing (long)
#   make test-slow, make bench, make format, make docs
MODEL ?= models/fasteep-tiny
PORT ?= 8000
RANKS ?= 4
JOBS ?= $(shell nproc)
BUILD = cmake --build build/$(1) --parallel $(JOBS)
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

BUILD_PACKAGES := g++ cmake ninja-build pkg-config libboost1.81-dev nlohmann-json3-dev \
  libprotobuf-dev protobuf-compiler libpcre2-dev libutf8proc-dev libcli11-dev libyaml-cpp-dev \
  libspdlog-dev libfmt-dev prometheus-cpp-dev libhwloc-dev libxxhash-dev
TEST_PACKAGES := $(BUILD_PACKAGES) libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev \
  clang-16 libclang-rt-16-dev clang-format clang-tidy python3 git

.PHONY: build serve test test-sanitizers test-unit test-debug test-tsan test-fuzz test-style test-slow bench \
  format docs build-packages test-packages clean

# Installs the packages named that are not there yet; asks no registry when all are.
define install
@missing=$$(for p in $(1); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
if [ -n "$$missing" ]; then echo "installing:" $$missing; \
  $(SUDO) apt-get update -qq && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null \
  || { echo "could not install: $$missing (run as root or with sudo, with Debian's mirrors reachable)"; exit 1; }; fi
endef

build-packages:
	$(call install,$(BUILD_PACKAGES))

test-packages:
	$(call install,$(TEST_PACKAGES))

build/%/build.ninja: CMakeLists.txt CMakePresets.json cmake/options.cmake cmake/rooms.cmake
	@cmake --preset $* -Wno-dev >build.log 2>&1 || { cat build.log; exit 1; }; rm -f build.log

build: build-packages
	@$(MAKE) --no-print-directory build/release/build.ninja
	@$(call BUILD,release)

serve: build
	@exec build/release/fasteep serve $(MODEL) --ep-size $(RANKS) --port $(PORT)

test: test-style test-unit

test-sanitizers: test-debug test-tsan test-fuzz

test-unit: test-packages
	@$(MAKE) --no-print-directory build/relassert/build.ninja
	@$(call BUILD,relassert)
	ctest --test-dir build/relassert --output-on-failure --timeout 600 -LE slow

test-debug: test-packages
	@$(MAKE) --no-print-directory build/debug/build.ninja
	@$(call BUILD,debug)
	ctest --test-dir build/debug --output-on-failure --timeout 900 -LE 'slow|unsanitized'

test-tsan: test-packages
	@$(MAKE) --no-print-directory build/tsan/build.ninja
	@$(call BUILD,tsan)
	ctest --test-dir build/tsan --output-on-failure --timeout 900 -LE 'slow|unsanitized|no-tsan'

test-fuzz: test-packages
	@$(MAKE) --no-print-directory build/fuzz/build.ninja
	@$(call BUILD,fuzz)
	ctest --test-dir build/fuzz --output-on-failure --timeout 300

test-style: test-packages
	python3 tests/check_rooms.py
	python3 tests/check_style.py

test-slow: test-unit
	ctest --test-dir build/relassert --output-on-failure --timeout 3600 -L slow

bench: build
	build/release/fasteep bench engine --report build/bench_engine.json

format:
	clang-format -i $$(git ls-files 'src/*.h' 'src/*.cc' 'tests/*.cc' 'bench/*.cc')

docs: build
	build/release/fasteep settings --markdown > docs/settings.md

clean:
	rm -rf build
