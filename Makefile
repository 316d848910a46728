# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Every install step is here; nothing needs to be on the machine but Python >= 3.11 and make.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
SHARED ?= ../shared
MINORS ?= 1.35,1.36,1.37
# Schedulers of others, in place of kube-scheduler: none unless asked for, they take minutes to build.
SCHEDULERS ?=
CONTROL_PLANE ?= embedded
SEEDS ?= 1000
OBJECTS ?= 100000
KUBERNETES ?= 1.36
# How often `make e2e` plays its stories of gangs: short, or full for every count and moment.
STORIES ?= short

.PHONY: help setup setup-dev demo test chaos fuzz check format generate compat bench real helm cert-manager e2e contract alerts images lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## Create .venv with what Grove needs to run
setup-dev: $(VENV)/.ready-dev ## The same, with what tests and checks need, and kubectl

$(VENV)/.ready: requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Grove needs Python 3.11 or newer; none was found on PATH." >&2; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python scripts/link.py
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready requirements-dev.lock
	@echo "Adding the tools for tests and checks ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

demo: setup ## Show gangs being scheduled on the embedded cluster, then exit
	@$(BIN)/grove demo

test: setup-dev ## Run all tests but those that need recorded data or real control planes
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not compat and not real" tests

chaos: setup-dev ## A thousand runs with random faults (make test has 400); SEEDS=5000 for more
	@GROVE_CHAOS_SEEDS="$(SEEDS)" $(BIN)/python -m pytest -n 2 --dist worksteal tests/scenarios/test_chaos.py

fuzz: setup-dev ## Put 100,000 misshapen objects to the webhooks, some through their HTTPS server; OBJECTS=1000000 for more
	@GROVE_FUZZ="$(OBJECTS)" $(BIN)/python -m pytest -n 0 -s tests/webhook/test_fuzz.py

check: setup-dev ## Lint, type-check, check layers, that generated files are fresh and that nothing is unused
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/generate.py --check
	@$(BIN)/python scripts/unused.py

format: setup-dev ## Format the tree and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

generate: setup ## Rewrite the generated files (CRDs, reference docs)
	@$(BIN)/python scripts/generate.py

compat: setup-dev ## Check against the data in ../shared (samples, upstream CRDs, recorded goldens)
	@if [ -d "$(SHARED)/data" ]; then GROVE_SHARED="$(SHARED)" $(BIN)/python -m pytest -m compat tests; \
	else echo "make compat: $(SHARED)/data is not there, so nothing was compared; this is fine in a plain clone."; fi

bench: setup ## Measure apply -> running at 10 to 10,000 pods; CONTROL_PLANE=real (after `make real`) for real programs, KUBERNETES=1.36
	@$(BIN)/python -m bench --control-plane "$(CONTROL_PLANE)" --kubernetes "$(KUBERNETES)"
	@$(BIN)/python -m bench.backends $(if $(filter real,$(CONTROL_PLANE)),--real)

real: setup ## Install real control planes (etcd, Kubernetes) for the tests that use them; MINORS=1.36 for one; SCHEDULERS=all (or names with commas) for other schedulers too
	@$(BIN)/python -m grove.real install --minors "$(MINORS)" --schedulers "$(SCHEDULERS)"

helm: setup ## Install Helm for the tests of the chart, and fetch the Prometheus operator's kinds for its monitoring objects
	@$(BIN)/python -m grove.real tool helm
	@$(BIN)/python -m grove.real fetch prometheus-operator || echo "make helm: without them make e2e skips a test of monitoring objects" >&2

cert-manager: setup ## Build cert-manager's controllers and cainjector for the tests that use them
	@$(BIN)/python -m grove.real tool cert-manager
	@$(BIN)/python -m grove.real tool cainjector

e2e: setup-dev ## Gangs, faults and permissions on real control planes (after `make real`); MINORS=1.36 for one, SCHEDULERS=all for others, STORIES=full for every variant of the stories, RECORD=1 to record
	@GROVE_E2E_MINORS="$(MINORS)" GROVE_E2E_SCHEDULERS="$(SCHEDULERS)" GROVE_E2E_STORIES="$(STORIES)" $(BIN)/python -m pytest -n 0 -rs -m real $(if $(RECORD),--record) tests/e2e

contract: setup-dev ## The API contract suite on real control planes (after `make real`); MINORS=1.36 for one
	@$(BIN)/python scripts/contract_real.py "$(MINORS)"

alerts: setup-dev ## Test the alert rules and the queries of the dashboard with promtool, which is built first where it is missing
	@$(BIN)/python -m grove.real tool promtool >/dev/null
	@$(BIN)/python -m pytest -n 0 -rs tests/deploy/test_monitoring.py

images: setup-dev ## Build both images without a container engine, from a base of Debian's packages, and start them; as root
	@$(BIN)/python scripts/build_images.py

lock: ## Pin the dependencies again (needs the package index)
	@bash scripts/lock.sh

clean: ## Remove .venv and caches
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
