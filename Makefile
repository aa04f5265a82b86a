# make demo   the main job on a clone of this repository, offline once installed
# make test   sets up what is missing and runs the whole suite
# make check  everything CI looks at
# make e2e    real coding agents against a scripted model, without a network; E2E_AGENTS='codex pi' chooses
# make soak   random work against git's own answers, the watcher, larger stores: an hour or so
#
# make session [SID=…]           talk in a session, or in a new one
# make session-list             list the sessions
# make session-tree SID=…       draw one as a tree
# make session-chain-check      verify the audit chains of all sessions, or of SID
# make session-prune [KEEP=100] remove all but the last sessions
#
# PYTHON=python3.12 chooses the interpreter, VENV=path another environment, ARGS='-k word' is passed to pytest.

VENV ?= .venv
PYTHON ?=
ARGS ?=
# How many test processes; the suite is written for two.
JOBS ?= 2

# Without compiled modules each of the many processes that the tests start compiles Bridge for itself.
unexport PYTHONDONTWRITEBYTECODE

BIN := $(VENV)/bin
STAMPS := $(VENV)/.make
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
# A named interpreter that differs from the one before means a new environment; without a name any will do.
VENV_STAMP := $(if $(PYTHON),$(STAMPS)/venv-$(notdir $(PYTHON)),$(or \
    $(firstword $(wildcard $(STAMPS)/venv-*)),$(STAMPS)/venv-default))

.PHONY: session session-list session-tree session-chain-check session-prune \
    demo test e2e soak lint format types layers docs docs-check check bench clean help
.DELETE_ON_ERROR:

help:
	@sed -n '/^#/!q;s/^# \{0,1\}//p' Makefile

demo: $(STAMPS)/runtime
	$(BIN)/bridge demo

test: $(STAMPS)/dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --both-databases $(ARGS)

# The installation alone needs the network. Everything together is bounded, whatever an agent does.
E2E_AGENTS ?= claude-code codex gemini opencode pi
E2E_SECONDS ?= 1800
E2E_JOBS ?= 2
e2e: $(STAMPS)/dev
	timeout $(E2E_SECONDS) $(BIN)/python tests/e2e/agents.py install $(E2E_AGENTS)
	BRIDGE_E2E_AGENTS="$(E2E_AGENTS)" timeout --kill-after=30 $(E2E_SECONDS) $(BIN)/python tests/e2e/namespace.py \
	    $(BIN)/python -m pytest -n $(E2E_JOBS) tests/e2e $(ARGS)

soak: $(STAMPS)/dev
	SOAK_OPERATIONS=$${SOAK_OPERATIONS:-100000} $(BIN)/python -m pytest -s -p no:randomly \
	    tests/integration/git/test_watch_random.py $(ARGS)
	$(BIN)/python -m pytest -n $(JOBS) --hypothesis-profile=soak tests/integration/git/test_observe_random.py $(ARGS)
	$(BIN)/python -m pytest -n $(JOBS) --hypothesis-profile=soak --timeout=3600 tests/integration/rpc/test_fuzz.py $(ARGS)
	$(BIN)/python -m pytest -n $(JOBS) --hypothesis-profile=soak --timeout=3600 \
	    tests/unit/transcripts/test_foreign_readers.py $(ARGS)
	@if $(BIN)/python -c 'import atheris' 2>/dev/null; then \
	    $(BIN)/python tests/soak/fuzz_transcripts.py -max_total_time=600; \
	else echo "atheris is not installed (pip install '.[fuzz]'): the parsers are not fuzzed by coverage" >&2; fi
	$(BIN)/python -m pytest tests/soak -p no:randomly --timeout=3600 $(ARGS)

lint: $(STAMPS)/dev
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

format: $(STAMPS)/dev
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .

types: $(STAMPS)/dev
	$(BIN)/python -m mypy

layers: $(STAMPS)/dev
	$(BIN)/lint-imports

docs: $(STAMPS)/dev
	$(BIN)/python scripts/generate.py
	$(BIN)/python scripts/field_cases.py

docs-check: $(STAMPS)/dev
	$(BIN)/python scripts/generate.py --check
	$(BIN)/python scripts/field_cases.py --check

check: lint types layers docs-check test

bench: $(STAMPS)/dev
	$(BIN)/python -m pytest tests/benchmarks -p no:xdist -p no:randomly -p no:timeout $(ARGS)

SID ?=
KEEP ?= 100

session: $(STAMPS)/runtime
	@$(BIN)/bridge chat $(SID)

session-list: $(STAMPS)/runtime
	@$(BIN)/bridge session list

session-tree: $(STAMPS)/runtime
	@$(BIN)/bridge tree $(SID)

session-chain-check: $(STAMPS)/runtime
	@$(BIN)/bridge verify $(SID) --only chain

session-prune: $(STAMPS)/runtime
	@$(BIN)/bridge session prune --keep $(KEEP)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

# The stamps lie inside the environment, so that removing it removes them. Nothing below them touches the network
# again until pyproject.toml changes.
$(VENV_STAMP): | scripts/set_up.sh
	sh scripts/set_up.sh $(VENV) $(PYTHON)
	@mkdir -p $(STAMPS)
	@touch $@

$(STAMPS)/runtime: $(VENV_STAMP) pyproject.toml
	@echo "installing Bridge and what it needs into $(VENV), which takes a minute" >&2
	$(PIP) --editable .
	@touch $@

# An extra rather than a dependency group: the pip of a fresh Python 3.11 (23.2) does not know groups yet.
$(STAMPS)/dev: $(VENV_STAMP) pyproject.toml
	@echo "installing Bridge, what it needs and the tools for working on it into $(VENV), which takes a minute" >&2
	$(PIP) --editable '.[dev]'
	@touch $(STAMPS)/runtime $@
