# Every target sets up what it needs in .venv. PYTHON: any Python from 3.10 on.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
BUILD_REQUIRES := $(shell sed -n '/^requires = /,/^]/s/^ *\(".*"\),$$/\1/p' pyproject.toml)
# Each process takes the next file: long ones, which start Spark, come first (tests/conftest.py). Spark tests wait half of
# the time, so there are two processes more than a machine with two cores has.
PYTEST := $(BIN)/python -m pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder --durations 15
LISTENER := $(shell find listener -name '*.java') listener/build_hook.py
JAVA := $(shell find listener tests bench tools -name '*.java')
.DEFAULT_GOAL := help
# Images of Python set it; the tests start Python hundreds of times, and would compile everything each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-ci test-matrix test-cluster exactness bench check format dev jar docs site dist clean

help: ## show this
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

demo: $(VENV)/.demo ## run a real PySpark workload and report what its joins cost
	$(BIN)/joinsight demo

test: $(VENV)/.dev ## run the tests
	$(BIN)/python listener/build_hook.py
	$(PYTEST) -m "not matrix and not nightly and not cluster"

test-ci: $(VENV)/.dev ## run all tests but the rest of the matrix of versions, with one that changes with the day
	$(BIN)/python listener/build_hook.py
	$(BIN)/python -m tests.installed
	$(PYTEST) -m "not nightly and not cluster and not part"

test-matrix: $(VENV)/.dev ## run all that `make test` leaves out, on all versions of Spark
	$(BIN)/python listener/build_hook.py
	$(BIN)/python -m tests.installed
	$(PYTEST) -m "(matrix or nightly) and not cluster"

test-cluster: $(VENV)/.dev ## run Docker's stack and jobs on Kubernetes and YARN, as root on Debian with Go; an hour the first time
	$(BIN)/python listener/build_hook.py
	$(BIN)/python -m pytest -m cluster --durations 15 tests/stack tests/cluster

exactness: $(VENV)/.dev ## compare with Spark's own numbers on all versions, and record how many are equal
	$(BIN)/python listener/build_hook.py
	JOINSIGHT_RECORD_EXACTNESS=1 $(BIN)/python -m pytest tests/exactness/test_exactness.py
	$(BIN)/python -m tests.exactness.results docs/exactness.md

bench: $(VENV)/.dev ## repeat every benchmark with small sizes, into build/bench; less than three hours
	$(BIN)/python listener/build_hook.py
	$(BIN)/python -m bench

check: $(VENV)/.dev ## lint and type-check Python and Java, check the wording
	tools/pre-commit
	$(BIN)/clang-format --dry-run --Werror $(JAVA)
	$(BIN)/python listener/build_hook.py --check

format: $(VENV)/.dev ## format Python and Java
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(JAVA)

dev: $(VENV)/.dev ## set up .venv for development, with the quick checks before each commit
	@-test ! -d .git || test -e .git/hooks/pre-commit || { mkdir -p .git/hooks && ln -s ../../tools/pre-commit .git/hooks/pre-commit; }

jar: $(VENV)/.demo ## build the listener
	$(BIN)/python listener/build_hook.py

docs: $(VENV)/.dev ## regenerate views, data dictionary, metrics page, tables in pages, JSON Schema, dashboards
	$(BIN)/python -m joinsight.tables.views migrations/views
	$(BIN)/python -m joinsight.tables.dictionary > docs/data-dictionary.md
	$(BIN)/python -m joinsight.serve.metrics_page > docs/metrics.md
	$(BIN)/python -m joinsight.findings.page docs/findings.md
	$(BIN)/python -m joinsight.plan.decisions docs/aqe.md
	$(BIN)/python -m joinsight.timing.critical_path docs/critical-path.md
	$(BIN)/python -m joinsight.timing.cost_kinds docs/cost.md
	$(BIN)/python -m joinsight.plan.engines_page docs/engines.md
	$(BIN)/python -m tests.exactness.results docs/exactness.md
	$(BIN)/python -m joinsight.contract.schema > collector/joinsight/contract/schemas/document-v1.schema.json
	$(BIN)/python -m dashboards

site: $(VENV)/.demo ## build the documentation site into build/site and check its links
	$(PIP) --no-build-isolation --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

dist: $(VENV)/.dev ## build the release files into dist/: source, wheel, jar, checksums
	$(PIP) build twine
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	cp collector/joinsight/jars/joinsight-listener.jar dist/
	$(BIN)/twine check --strict dist/*.whl dist/*.tar.gz
	cd dist && sha256sum * > SHA256SUMS

clean: ## remove everything that these targets created
	rm -rf $(VENV) .venvs dist build listener/build collector/joinsight/jars

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Joinsight needs Python 3.10 or later; name one: make PYTHON=python3.12"; exit 1; }
	@command -v javac >/dev/null || test -x "$$JAVA_HOME/bin/javac" || { echo "Joinsight needs a JDK, 17 or later: put javac on PATH or set JAVA_HOME"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python cannot make a virtual environment (Debian: apt-get install python3-venv)"; exit 1; }

# PySpark and the build backend first: the package is then built without a second download of PySpark.
$(VENV)/.demo: pyproject.toml $(LISTENER) | $(BIN)/python
	@echo "Setting up $(VENV): PySpark is a large download the first time"
	$(PIP) $(BUILD_REQUIRES) 'editables>=0.5'
	$(PIP) --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(PIP) --no-build-isolation --editable '.[dev]'
	@touch $@
