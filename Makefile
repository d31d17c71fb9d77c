# make setup   the environment alone          make check   explore both policies, then drive the page manager
# make test    lint, types, tests             make bench   the benchmarks
# TORCH=torch==X.Y.Z chooses the torch that is installed; TRACE=FILE drives a real trace instead of a generated one.

PYTHON ?= python3
TORCH ?= torch==2.13.0
TRACE ?= conversation
LIMIT ?= 100
VENV := .venv
BIN := $(VENV)/bin
export NUMBA_CACHE_DIR ?= $(CURDIR)/.numba_cache

.PHONY: setup check test crosscheck verify mutants spec bench tables clean

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

clean:
	rm -rf $(VENV) .numba_cache build src/*.egg-info
