# Every target sets up what it needs in .venv. PYTHON: any Python from 3.10 on.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Two test processes, each with the files of its turn: a test of Spark needs most of a core and waits half of the time.
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist loadfile
LISTENER := $(shell find listener -name '*.java') listener/build_hook.py
.DEFAULT_GOAL := help

.PHONY: help demo test test-matrix check dev jar docs wheel clean

help: ## show this
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

demo: $(VENV)/.demo ## run a real PySpark workload and report what its joins cost
	$(BIN)/joinsight demo

test: $(VENV)/.dev ## run the tests
	$(BIN)/python listener/build_hook.py
	$(PYTEST) -m "not matrix"

test-matrix: $(VENV)/.dev ## run the long rest of the test matrix
	$(BIN)/python listener/build_hook.py
	$(PYTEST) -m matrix

check: $(VENV)/.dev ## lint and check types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

dev: $(VENV)/.dev ## set up .venv for development

jar: $(VENV)/.demo ## build the listener
	$(BIN)/python listener/build_hook.py

docs: $(VENV)/.dev ## write what is generated: data dictionary, metrics, thresholds of findings, JSON Schema, dashboards
	$(BIN)/python -m joinsight.store.dictionary > docs/data-dictionary.md
	$(BIN)/python -m joinsight.serve.metrics_page > docs/metrics.md
	$(BIN)/python -m joinsight.findings.page docs/findings.md
	$(BIN)/python -m joinsight.schema > collector/joinsight/schemas/document-v1.schema.json
	$(BIN)/python -m dashboards

wheel: $(VENV)/.dev ## build the wheel into dist/
	$(PIP) build
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

clean: ## remove what the targets made
	rm -rf $(VENV) .venvs dist listener/build collector/joinsight/jars

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Joinsight needs Python 3.10 or later; name one: make PYTHON=python3.12"; exit 1; }
	@command -v javac >/dev/null || test -x "$$JAVA_HOME/bin/javac" || { echo "Joinsight needs a JDK, 17 or later: put javac on PATH or set JAVA_HOME"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python cannot make a virtual environment (Debian: apt-get install python3-venv)"; exit 1; }

# PySpark and the build backend first: the package is then built without a second download of PySpark.
$(VENV)/.demo: pyproject.toml $(LISTENER) | $(BIN)/python
	@echo "Setting up $(VENV): PySpark is a large download the first time"
	$(PIP) 'hatchling>=1.27' 'editables>=0.5' pyspark==4.3.0
	$(PIP) --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(PIP) --no-build-isolation --editable '.[dev]'
	@touch $@
