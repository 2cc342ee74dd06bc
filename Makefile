# Everything runs from .venv, which is created from a lock file with hashes. Only `setup`, `broker` and `lock` need a network.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Else each process would compile all modules again when it starts.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: test-cluster wheel release tag alertmanager prometheus3 peers broker help jars kernels setup web demo demo-once test fast-tests test-fast slow fuzz lint bench docs faults lock clean prerequisites

help:
	@echo "make setup      virtual environment, jars"
	@echo "make demo       the simulated testbed, live in this terminal and on the dashboard, until Ctrl-C"
	@echo "make demo-once  the same to its end; standard output holds one JSON object"
	@echo "make test       the tests"
	@echo "make test-fast  unit and property tests that start no other process; under a minute"
	@echo "make test-cluster  a workspace on a Spark cluster of this machine"
	@echo "make slow       longer tests: more seeds, more data"
	@echo "make lint       style, types, import directions, schemas, reference pages"
	@echo "make web        the dashboard, built from its sources with Node"
	@echo "make fuzz       bodies of protocols, changed by what they cover; SECONDS=60 for each"
	@echo "make faults     fault tests (slow)"
	@echo "make bench      benchmarks; GOALS=G10 for some"
	@echo "make wheel      the wheel, in dist/"
	@echo "make release    wheel, list of its parts (CycloneDX) and checksums, in dist/"
	@echo "make tag        the release, and its tag in git"
	@echo "make docs       the site of the documentation, in site/"

prerequisites:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "moirae needs Python 3.11 or newer: install it, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "moirae needs Python's venv module: install it (Debian: apt install python3-venv)" >&2; exit 1; }
	@version=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'); [ "$${version:-0}" -ge 17 ] || \
	  { echo "moirae needs Java 17 or newer, found $${version:-none}: install a JDK (Debian: apt install openjdk-17-jdk-headless)" >&2; exit 1; }

# Downloads wait while the kernels are compiled.
setup: prerequisites $(STAMP)
	@$(MAKE) --no-print-directory -j 2 jars kernels

jars: prerequisites $(STAMP)
	@$(BIN)/python -m archiver.spark.install >&2

kernels: prerequisites $(STAMP)
	@$(BIN)/python -c 'from recall.similarity import compile_kernels; compile_kernels()' >&2

# Half of the time of set-up would go into compiling modules, most of which nothing imports: Python
# compiles the others when they are first imported.
$(STAMP): requirements.lock pyproject.toml | prerequisites
	@echo "moirae: setting up $(VENV), some minutes the first time …" >&2
	@$(PYTHON) -m venv $(VENV) >&2
	@DIST_EXTRA_CONFIG=$(CURDIR)/deploy/stored_wheels.cfg \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.lock >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . >&2
	@touch $@

# A Kafka broker for tests; tests that need it are skipped if it cannot be installed.
broker: prerequisites $(STAMP)
	-@$(BIN)/python -m tests.broker.install

# Alertmanager, with which `make slow` compares notifications, and Prometheus, whose alerts and samples
# it sends; without them these tests are skipped.
alertmanager: setup
	-@$(BIN)/python -m tests.alertmanager.install

# Prometheus 3, which sends remote write 2.0: it is built, with Go, for about ten minutes.
prometheus3: setup
	-@$(BIN)/python -m tests.alertmanager.build_prometheus

demo: setup
	@$(BIN)/moirae demo

demo-once: setup
	@$(BIN)/moirae demo --once -o json

# Tests that start nothing run while jars and broker are downloaded. Of the others three files at a
# time, on two cores: much of their time they wait for processes.
test: prerequisites $(STAMP)
	@status=0; \
	$(MAKE) --no-print-directory --keep-going -j 3 jars broker fast-tests || status=1; \
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --not-fast || status=1; \
	exit $$status

fast-tests: kernels
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --fast tests/unit tests/property

# A test that starts a service fails here: see tests/no_services.py.
test-fast: setup
	@$(BIN)/python -m pytest --fast --hypothesis-profile fast -n 2 tests/unit tests/property

# A Spark cluster whose workers see no file of the driver; needs unshare (util-linux).
test-cluster: setup
	@$(BIN)/python -m pytest -s -m 'slow or not slow' tests/e2e/test_cluster.py tests/e2e/test_cluster_answers.py

slow: setup broker alertmanager
	@$(BIN)/python -m pytest -s -m slow --timeout 3600
	@$(BIN)/python -m pytest --hypothesis-profile thorough -n 2 tests/property

# Other senders of logs and metrics: rsyslog, and an OpenTelemetry Collector, which Go builds in minutes.
peers: setup
	-@$(BIN)/python -m tests.peers.install

# Needs atheris, which has no wheels for all Pythons: $(BIN)/python -m pip install atheris
fuzz: setup
	@$(BIN)/python -m tests.fuzzing $(SECONDS)

lint: prerequisites $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m moirae.json_schema --check
	@$(BIN)/python -m moirae.reference --check
	@$(BIN)/python -m moirae.dashboard.build --check

# Needs Node; the built files are committed.
web: setup
	@$(BIN)/python -m moirae.dashboard.build

faults: setup broker
	@$(BIN)/python -m pytest -s -m faults --timeout 3600

bench: setup
	@$(BIN)/python -m benchmarks $(if $(GOALS),--goals $(GOALS))

# The version is in moirae/__init__.py.
wheel: prerequisites $(STAMP)
	@rm -rf build dist
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@rm -rf build

release: wheel
	@$(BIN)/python -m deploy.release.parts > dist/sbom.cdx.json
	@cd dist && sha256sum *.whl sbom.cdx.json > SHA256SUMS && cat SHA256SUMS

tag: release
	@$(BIN)/python -m deploy.release.tag

docs: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site

# Needs uv. Versions for all Pythons and platforms, with hashes.
lock:
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-header --extra dev -o requirements.lock pyproject.toml
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-header --no-annotate --constraint requirements.lock -o deploy/container/requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) .moirae-demo .moirae-demo.old .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
