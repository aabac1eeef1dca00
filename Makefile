# Every target builds what it needs: from a bare checkout, `make test` or `make reproduce` is the first command.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
NATIVE := build/.native
PIP := $(BIN)/python -m pip --disable-pip-version-check
# The tests start hundreds of interpreters, which read one another's bytecode; empty, this does not forbid to write it.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help venv native sanitize neon test check lint oldest reproduce bench browser coq proofs docs screenshots soak wheel

help: ## what there is to make
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 18

venv: $(INSTALLED) native ## .venv with the pinned dependencies and the package, editable

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Separatrix needs Python >= 3.11, and $(PYTHON) is " + sys.version.split()[0] + ": make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv
	$(PIP) install --quiet --upgrade --constraint constraints.txt pip
	$(PIP) install --quiet --constraint constraints.txt --group dev --group docs
	$(PIP) install --quiet --constraint constraints.txt --no-build-isolation --editable '.[lab,explore,dask,hf]'
	@touch $@

# The kernels beside the sources, for the editable installation; without a compiler everything runs in plain PyTorch.
native: $(NATIVE) ## the kernels in C++, where there is a compiler

$(NATIVE): $(INSTALLED) $(wildcard csrc/*)
	@if command -v $${CXX:-c++} >/dev/null; then \
	$(BIN)/cmake -S csrc -B build/native -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) \
	  -DCMAKE_LIBRARY_OUTPUT_DIRECTORY=$(abspath src/separatrix) >/dev/null && $(BIN)/cmake --build build/native; \
	else echo "make native: no C++ compiler was found; separatrix doctor says what that means."; fi
	@mkdir -p build && touch $@

CASES ?= 5000
SEED ?= 1
CMAKE := $(BIN)/cmake -S csrc -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DSEPARATRIX_TESTS=ON

# SANITIZE=thread looks for data races instead: the kernels' own threads, and threads that share a stream.
SANITIZE ?= address,undefined
comma := ,
SANITIZED := build/sanitize-$(subst $(comma),-,$(SANITIZE))

sanitize: $(INSTALLED) ## the kernels against literal loops (CASES=5000, SEED=1), under sanitisers (SANITIZE=thread: that one)
	$(CMAKE) -B $(SANITIZED) -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSEPARATRIX_LOWERED=ON \
	  -DSEPARATRIX_SANITIZE=$(SANITIZE) >/dev/null
	$(BIN)/cmake --build $(SANITIZED)
	$(SANITIZED)/fuzz $(SEED) $(CASES)
	$(SANITIZED)/near_linear $(SEED) $(CASES)

ARM := aarch64-linux-gnu-g++

neon: $(INSTALLED) ## the same for ARM, on an emulated processor, where compiler and emulator are installed
	@missing=; for tool in $(ARM) qemu-aarch64; do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	if [ -n "$$missing" ]; then \
	  echo "make neon: not found:$$missing. On Debian: apt-get install g++-aarch64-linux-gnu qemu-user"; exit 1; fi
	$(CMAKE) -B build/neon -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=$(ARM) \
	  -DCMAKE_EXE_LINKER_FLAGS=-static >/dev/null
	$(BIN)/cmake --build build/neon
	qemu-aarch64 build/neon/fuzz $(SEED) $(CASES)
	qemu-aarch64 build/neon/near_linear $(SEED) $(CASES)

test: venv ## the tests, and every docstring's example
	$(BIN)/python -m pytest -n auto --dist worksteal

check: lint ## lint, and the tests of what changed since the last commit (BASE=main: since that one)
	$(BIN)/python -m tests.changed $(BASE) | xargs -r $(BIN)/python -m pytest -n auto --dist worksteal

lint: venv ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# By hand, and not in CI: older builds of torch bring several GB. The kernels are those of `make native`.
OLDEST := build/oldest
OLDEST_PIP := $(OLDEST)/bin/python -m pip --disable-pip-version-check

oldest: native ## the tests with the oldest versions that may be installed, on Python 3.11 (TESTS=tests/nn: only these)
	@$(PYTHON) -c 'import sys; sys.version_info[:2] == (3, 11) or sys.exit("make oldest: the oldest Python is 3.11, and $(PYTHON) is " + sys.version.split()[0] + ": make PYTHON=python3.11 oldest")'
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST_PIP) install --quiet --upgrade --constraint constraints-oldest.txt pip
	$(OLDEST_PIP) install --quiet --constraint constraints-oldest.txt --group dev --group docs
	$(OLDEST_PIP) install --quiet --constraint constraints-oldest.txt --no-build-isolation --editable '.[all]'
	$(OLDEST)/bin/python -m pytest -n auto --dist worksteal $(TESTS)

reproduce: venv ## check every claim that is recorded
	$(BIN)/separatrix reproduce

bench: venv ## speed against peers and against this machine's roofline
	$(BIN)/python -m benchmarks

browser: ## Chromium for the tests of the pages, where it can be installed
	@command -v chromium >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -qq -y chromium >/dev/null; } \
	|| echo "make browser: install Chromium yourself; without it the tests of the pages are skipped."

COQ := coq libcoq-flocq libcoq-interval

coq: ## Coq and its libraries for `make proofs`, where they can be installed
	@command -v coqc >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -qq -y $(COQ) >/dev/null; } \
	|| echo "make coq: install Coq 8.16, Flocq 4.1 and Coq-Interval 4.6 yourself; nothing but \`make proofs\` needs them."

# By hand, and not in CI: the tests compare the committed statements with the ledger, without Coq.
proofs: ## check the proofs of proofs/ with Coq, and print the axioms of every theorem
	@command -v coqc >/dev/null || { echo "make proofs: Coq was not found. On Debian: apt-get install $(COQ)"; exit 1; }
	@mkdir -p build/proofs && cp -u -p proofs/*.v proofs/_CoqProject build/proofs/
	cd build/proofs && coq_makefile -f _CoqProject -o Makefile && $(MAKE)
	$(PYTHON) proofs/axioms.py build/proofs

docs: venv ## the documents, in docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -E -b html docs docs/_build/html
	@echo "The documents: docs/_build/html/index.html"

# By hand, and not in CI: a person looks at the pictures. The report is that of results/, if there is one.
screenshots: docs ## pictures of the explorer, the report and the documents (ONLY=learn: pages of that name)
	$(BIN)/python -m tests.screenshots $(if $(ONLY),--only $(ONLY))

soak: venv ## the tests that take minutes
	$(BIN)/python -m pytest -m soak --verbose --durations 0

wheel: venv ## dist/separatrix-*.whl
	$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
