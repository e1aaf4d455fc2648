# Every target sets up what it needs: a virtual environment with pinned dependencies.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WHEELS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kernelwright/wheels
READY := $(VENV)/ready

# Tests start hundreds of processes; each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check docs lock clean

demo: $(READY)
	@$(BIN)/python scripts/demo.py

test: $(READY)
	@$(BIN)/pytest -q -n 4

check: $(READY)
	@BIN=$(BIN) scripts/check

$(READY): requirements.lock pyproject.toml scripts/setup
	@PYTHON=$(PYTHON) VENV=$(VENV) WHEELS=$(WHEELS) scripts/setup
	@touch $@

# Builds the documentation site into build/site; a broken link is an error.
docs: $(READY)
	@$(BIN)/mkdocs --quiet build

# Rewrites the pinned versions for every supported platform; needs network.
lock: $(READY)
	@BIN=$(BIN) scripts/lock

clean:
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
