# Every command of the repository. Each target makes the environment that it needs on a fresh machine.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# Arguments of pytest in `make test`, e.g. `make test PYTEST_ARGS='tests/core -k gang' WORKERS=0`.
WORKERS ?= 2
PYTEST_ARGS ?=
# Arguments of `pumice demo` and `pumice bench`.
DEMO_ARGS ?=
BENCH_ARGS ?=
# The file for the output of `make bench`, the folder of its page, and the date on the page.
BENCH_LINES ?= .cache/bench/lines.jsonl
BENCH_INTO ?= docs/reference
BENCH_DATE ?= $(shell date +%F)
SOAK_ARGS ?=
# The name of the image, what builds it, and what is passed on, e.g. IMAGE_ARGS='--build-arg BASE=…'.
IMAGE ?= pumice
IMAGE_TOOL ?= $(firstword $(foreach tool,docker podman buildah,$(shell command -v $(tool) 2>/dev/null)))
IMAGE_ARGS ?=
# The protocol as it was last released or landed: `buf breaking` compares with it.
BASELINE := proto/v1.binpb

# The environment is made again only when the content of the pins, of pyproject.toml above its tool
# settings, or of the compiled files changes. Their times do not count.
COMPILED := hatch_build.py server/pumice/core/kernel/_rows.c
ENV_ID := $(shell sed '/^\[tool\.ruff/,$$d' pyproject.toml | cat - constraints.txt $(COMPILED) | cksum | cut -d' ' -f1)
STAMP := $(VENV)/.made-$(ENV_ID)

.PHONY: help env demo test check gen bench soak docs image controlplane lint format types imports wire breaking baseline clean

help:  ## Lists the targets.
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

env: $(STAMP)  ## Makes .venv with everything pinned in constraints.txt.

# The lock lets several runs of make share one environment.
$(STAMP):
	@mkdir -p $(VENV)
	@exec 9>$(VENV)/.lock; if command -v flock >/dev/null; then flock 9; fi; \
	if [ -e $(STAMP) ]; then exit 0; fi; \
	echo "making the environment in $(VENV)"; \
	[ -x $(BIN)/pip ] || $(PYTHON) -m venv $(VENV); \
	$(BIN)/python -m pip install --quiet -c constraints.txt hatchling editables; \
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-build-isolation -e '.[dev]'; \
	rm -f $(VENV)/.made-*; touch $(STAMP)

demo: env  ## Runs a core and a simulated cluster as two processes over gRPC, for half a minute.
	@$(BIN)/pumice demo $(DEMO_ARGS)

test: env  ## Runs every test.
	@$(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_ARGS)

# Tests build these when they need them; this target builds them earlier, or reports why it cannot.
controlplane: env  ## Builds kube-apiserver, etcd and kubectl for the tests, into ~/.cache/pumice.
	@$(BIN)/python -m tests.controlplane.binaries

check: lint types imports wire docs  ## Runs every static check.

# Without arguments everything is measured, and the page about speed is made from the output. The
# last two benchmarks start their own control planes, as the tests do; without Go they are skipped.
bench: env  ## Measures; prints one JSON line a result, and writes docs/reference/speed.md.
	@case '$(BENCH_ARGS)' in \
	  '') mkdir -p $(dir $(BENCH_LINES)); \
	    { $(BIN)/pumice bench all; $(BIN)/pumice bench growth; \
	      for bench in endtoend controllers; do \
	        $(BIN)/python -m tests.controlplane $(BIN)/pumice bench $$bench; done; } | tee $(BENCH_LINES); \
	    $(BIN)/pumice bench report $(BENCH_LINES) --date $(BENCH_DATE) --into $(BENCH_INTO);; \
	  endtoend*|controllers*) $(BIN)/python -m tests.controlplane $(BIN)/pumice bench $(BENCH_ARGS);; \
	  *) $(BIN)/pumice bench $(BENCH_ARGS);; \
	esac

soak: env  ## Sends a million changes through the adapter's watches; checks memory and digests.
	@$(BIN)/python -m tests.soak.watching $(SOAK_ARGS)

docs: env  ## Builds the documentation strictly, into site/.
	@echo "docs: mkdocs build --strict"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

image:  ## Builds the container image with docker, podman or buildah.
	@[ -n "$(IMAGE_TOOL)" ] || { echo "no docker, podman or buildah; install one or set IMAGE_TOOL"; exit 1; }
	@$(IMAGE_TOOL) build $(IMAGE_ARGS) -t $(IMAGE) -f Containerfile .

lint: env  ## Lints, and checks the format, with ruff.
	@echo "lint: ruff"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted; run 'make format'"; exit 1; }

format: env  ## Formats, and fixes what ruff can fix.
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format .

types: env  ## Checks types with mypy, strictly.
	@echo "types: mypy"
	@$(BIN)/mypy

imports: env  ## Checks which package imports which.
	@echo "imports: import-linter"
	@$(BIN)/lint-imports --no-logo --cache-dir .cache/import-linter

PROTOC = PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m grpc_tools.protoc -I proto

# Writes all stubs into the directory $(1).
define GENERATE
	$(PROTOC) --python_out=$(1) --grpc_python_out=$(1) --mypy_out=quiet:$(1) --mypy_grpc_out=quiet:$(1) \
	  proto/pumice/v1/*.proto
endef

# The stubs of a deleted protocol file are deleted too.
gen: env  ## Generates the stubs beside the protocol files.
	@mkdir -p .cache; out=$$(mktemp -d .cache/gen.XXXXXX); trap 'rm -rf "$$out"' EXIT; \
	$(call GENERATE,"$$out"); \
	for old in proto/pumice/v1/*_pb2*.py*; do \
	  if [ -e "$$old" ] && [ ! -e "$$out/$${old#proto/}" ]; then rm "$$old"; fi; done; \
	cp "$$out"/pumice/v1/* proto/pumice/v1/; \
	echo "generated $$(ls "$$out"/pumice/v1 | wc -l | tr -d ' ') files in proto/pumice/v1"

wire: env breaking  ## Lints the protocol, and compares the committed stubs with fresh ones.
	@echo "wire: buf lint, stub drift"
	@ls proto/pumice/v1/*.proto >/dev/null 2>&1 || { echo "no protocol files yet"; exit 0; }; \
	$(BIN)/buf lint; \
	mkdir -p .cache; out=$$(mktemp -d .cache/gen.XXXXXX); trap 'rm -rf "$$out"' EXIT; \
	$(call GENERATE,"$$out"); \
	mkdir "$$out/held"; cp proto/pumice/v1/*_pb2*.py* "$$out/held/" 2>/dev/null || true; \
	diff -rq "$$out/held" "$$out/pumice/v1" || { echo "stubs differ from the protocol; run 'make gen'"; exit 1; }

# Compared with a file of this repository and not with a branch: a branch has changed already when a
# break was merged into it.
breaking: env  ## Refuses changes of the protocol that break its users.
	@echo "breaking: buf breaking against $(BASELINE)"
	@$(BIN)/buf breaking --against $(BASELINE)

# Only after `breaking` has found no break: the baseline never loses what it holds.
baseline: env breaking  ## Adds what is new in the protocol to the baseline of `breaking`.
	@$(BIN)/buf build --exclude-source-info --output $(BASELINE)
	@echo "wrote $(BASELINE)"

clean:  ## Removes the output of the other targets, and the environment.
	@rm -rf $(VENV) .cache .hypothesis .ruff_cache site build dist
