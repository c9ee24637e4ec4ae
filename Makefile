# The doors of the repository. Each target makes the environment it needs on a fresh machine.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# What `make test` passes to pytest, e.g. `make test PYTEST_ARGS='tests/core -k gang' WORKERS=0`.
WORKERS ?= 2
PYTEST_ARGS ?=
# What `make demo` and `make bench` pass on.
DEMO_ARGS ?=
BENCH_ARGS ?= all
# The revision that `buf breaking` compares the protos with.
BREAKING_BRANCH ?= main

# The environment is made again only when the pins, or what pyproject.toml says about
# dependencies and packaging (all above its tool settings), change; a touched file is no reason.
ENV_ID := $(shell sed '/^\[tool\.ruff/,$$d' pyproject.toml | cat - constraints.txt | cksum | cut -d' ' -f1)
STAMP := $(VENV)/.made-$(ENV_ID)

PROTOS = $(wildcard proto/pumice/v1/*.proto)

.PHONY: help env demo test check gen bench docs lint types imports wire stubs clean

help:  ## Lists the targets.
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

env: $(STAMP)  ## Makes .venv with everything pinned in constraints.txt.

$(STAMP):
	@mkdir -p $(VENV)
	@exec 9>$(VENV)/.lock; if command -v flock >/dev/null; then flock 9; fi; \
	if [ -e $(STAMP) ]; then exit 0; fi; \
	echo "making the environment in $(VENV)"; \
	[ -x $(BIN)/pip ] || $(PYTHON) -m venv $(VENV); \
	$(BIN)/python -m pip install --quiet -c constraints.txt hatchling editables; \
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-build-isolation -e '.[dev]'; \
	rm -f $(VENV)/.made-*; touch $(STAMP)

demo: env  ## Runs core and simulated cluster as two processes over gRPC; ends by itself.
	@$(BIN)/pumice demo $(DEMO_ARGS)

test: env  ## Runs every test.
	@$(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_ARGS)

bench: env  ## Measures; prints one JSON line a result.
	@$(BIN)/pumice bench $(BENCH_ARGS)

docs: env  ## Builds the documentation strictly, into site/.
	@$(BIN)/mkdocs build --strict --quiet
