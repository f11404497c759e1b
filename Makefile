# Everything a person or CI does in a checkout. `make` alone lists it.
# Kept to what both GNU make 3.81 (macOS) and BSD make understand.

PYTHON ?= python3
PROBLEM ?= examples/run_length.md
ARGS ?=
MODEL ?= smollm2-135m
BIN = .venv/bin
OURS = app convert models ocaml training

.PHONY: help setup setup-dev solve test test-slow check format bench check-mac clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv and install what is missing; returns at once when nothing is
	@$(PYTHON) bootstrap.py

setup-dev: ## the same, with what tests and checks need
	@$(PYTHON) bootstrap.py dev

solve: setup ## solve PROBLEM=examples/run_length.md, with more options in ARGS
	@$(BIN)/ocamler solve $(ARGS) -- "$(PROBLEM)"

test: setup-dev ## the fast tests
	@$(BIN)/python -m pytest -q -m "not slow"

test-slow: setup-dev ## the tests that load real models or need a network
	@$(BIN)/python -m pytest -q -m slow

check: setup-dev ## style, types and the arrows between the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy bootstrap.py
	$(BIN)/lint-imports

format: setup-dev ## mend the style that can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup-dev ## the figures: start-up, large inputs, the judge, and the engines against their bare libraries with MODEL
	@$(BIN)/python -P tests/benchmarks/startup.py
	@$(BIN)/python -P tests/benchmarks/large_inputs.py
	@$(BIN)/python -P tests/benchmarks/judge.py
	@model=`$(BIN)/ocamler models pull $(MODEL)` && \
	$(BIN)/python -P tests/benchmarks/engine_overhead.py "$$model" && \
	$(BIN)/python -P tests/benchmarks/first_token.py "$$model"
	@$(BIN)/python -P tests/benchmarks/mlx_overhead.py

check-mac: setup ## what only a Mac can show, as a report to paste
	@$(BIN)/python -P tests/check_mac.py

clean: ## remove .venv, builds and caches; weights and settings stay
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(OURS) tests -name __pycache__ -prune -exec rm -rf {} +
