# Every target sets up what it needs: a virtual environment with the locked packages.
# Nothing is assumed but python3 (3.11+), make and the package registries.
.DEFAULT_GOAL := help
PYTHON ?= python3
# Without compiled modules every process that a target starts would compile them again.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DATA ?= data
JOBS ?= 2
# Tests that wait for other processes more than they work.
WAITING_JOBS ?= 4
SECONDS ?= 60
LINES ?= 27000
# What `make check` runs; `make test` runs everything else too, whatever there is.
QUICK := tests/unit tests/benchmarks tests/property tests/scenarios tests/simulation \
	$(filter-out %_client.py,$(wildcard tests/pips/test_*.py)) tests/test_tidy.py tests/test_docs.py \
	tests/test_examples.py tests/test_judge.py tests/test_campaign.py
# The files of these with tests that are slow: the thousands of others need not be collected for them.
SLOW = $(shell grep -rl --include='test_*.py' 'mark\.slow' $(QUICK))
# What `make test` also runs on a bucket and on workers; `make everywhere` runs all of it there.
ELSEWHERE := $(wildcard tests/pips/test_*_client.py) tests/rip/test_rip_reset.py tests/rip/test_rip_progress.py \
	tests/compat/test_progress.py
# As pytest, but what fails beside other work is judged alone. Unbuffered, to show at once what two of them do.
JUDGE := $(BIN)/python -u tests/judge.py -q --durations=15

.PHONY: help setup run demo check types quick test spark brokers steady everywhere fuzz words screenshots bench cluster campaign audit plants mutations clients suites pipelines docs format lock clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(READY) ## virtual environment with everything that tests and benchmarks need

$(READY): requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(v < (3, 11) and "Milepost needs Python 3.11 or newer, this is %d.%d" % v)'
	@echo "setting up $(VENV) (once; a minute or two)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

run: $(READY) ## the broker on pulsar://localhost:6650, data in ./data
	$(BIN)/milepost serve --data $(DATA)

demo: $(READY) ## a short tour that explains itself
	$(BIN)/python -m milepost.cli.tour.demo

format: $(READY) ## rewrite the sources in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: $(READY) ## format, lint, types, tidy, unit, property, scenarios, proposals: a few minutes
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(BIN)/python tests/judge.py --forget
	$(MAKE) --no-print-directory -j 2 types quick

# Beside the tests: it takes one core alone for 20 s where it has not run before.
types: $(READY)
	$(BIN)/mypy

quick: $(READY)
	$(JUDGE) -n $(JOBS) --dist worksteal -m "not slow" $(QUICK)

test: check ## everything that CI runs
	$(MAKE) --no-print-directory $(if $(CI),--output-sync=line) -j 2 spark brokers
	$(BIN)/python tests/judge.py --tell

# Beside the brokers' tests, which leave cores idle while they wait.
spark: $(READY)
	$(JUDGE) -n $(JOBS) --dist loadfile -m "not slow" tests/spark

brokers: $(READY)
	$(JUDGE) -n $(WAITING_JOBS) --dist worksteal tests/fuzz tests $(QUICK:%=--ignore=%) --ignore=tests/spark
	$(JUDGE) -n $(JOBS) --dist worksteal -m "slow" $(SLOW)
	MILEPOST_TESTS_ON=bucket $(JUDGE) -n $(WAITING_JOBS) $(ELSEWHERE)
	MILEPOST_TESTS_ON=workers $(JUDGE) -n $(WAITING_JOBS) $(ELSEWHERE)

steady: $(READY) ## make test again and again (RUNS=10), with the time of each: no test may be red, or looked at twice
	@for run in $$(seq $(or $(RUNS),10)); do \
	  began=$$(date +%s); $(MAKE) --no-print-directory test || exit 1; \
	  if [ -s .second_looks ]; then echo "run $$run: a test needed a second look"; exit 1; fi; \
	  echo "run $$run: $$(( $$(date +%s) - began )) s, none red"; \
	done

everywhere: $(READY) ## the compat, proposal, progress and Spark tests on a bucket and on workers (ON="bucket workers"): an hour
	for on in $(or $(ON),bucket workers); do \
	  export MILEPOST_TESTS_ON=$$on; \
	  $(JUDGE) -rs -n $(WAITING_JOBS) --dist worksteal tests/pips tests/rip tests/compat || exit 1; \
	  $(JUDGE) -rs -n $(JOBS) --dist loadfile tests/spark || exit 1; \
	done

fuzz: $(READY) ## every fuzz target for SECONDS=60, all in about 14 minutes
	MILEPOST_FUZZ_SECONDS=$(SECONDS) $(BIN)/python -m pytest -q -n $(JOBS) tests/fuzz

words: $(READY) ## 27,000 random command lines with hostile values: none may end as a bug (ten minutes)
	MILEPOST_WORDS=$(LINES) $(BIN)/python -m pytest -q tests/e2e/test_words.py

clients: $(READY) ## other official clients beside the wheel, and topics of an Apache Pulsar (MILEPOST_PEER): needs Go, a JDK, Maven and Node
	MILEPOST_CLIENTS=1 $(BIN)/python -m pytest -q -rs tests/compat/test_go_client.py tests/compat/test_java_client.py \
	  tests/compat/test_java_interfaces.py tests/e2e/test_migrate_pulsar.py tests/console/test_pulsar.py \
	  tests/rocketmq/test_mqadmin.py tests/rocketmq/test_other_clients.py

suites: $(READY) ## the suites that official clients bring, from MILEPOST_SUITE_PYTHON and _GO; takes ports 6650-8443
	$(BIN)/python tests/suites/run.py

pipelines: $(READY) ## the Spark pipelines end to end: needs Java 17
	$(BIN)/python -m pytest -q tests/spark/test_pipelines.py tests/spark/test_commands.py tests/spark/test_progress.py

cluster: $(READY) ## three brokers behind a proxy that makes trouble, judged: ROUNDS=8 of SECONDS=60
	MILEPOST_CLUSTER_ROUNDS=$(or $(ROUNDS),8) MILEPOST_CLUSTER_SECONDS=$(SECONDS) \
	  $(BIN)/python -m pytest -q -s tests/compat/test_cluster_faults.py

campaign: $(READY) ## every campaign at length (hours): PARTS="seeds kills" some, SCALE=0.01 a hundredth of each, PIECE=2/8 the second of eight
	SCALE=$(SCALE) PIECE=$(PIECE) $(BIN)/python tests/campaign.py $(PARTS)

audit: $(READY) ## known vulnerabilities of the locked packages: needs a network
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/pip-audit --strict --disable-pip --require-hashes -r requirements/dev.lock

plants: $(READY) ## plant the bugs of simulation and crash campaigns, and write down what finds each (minutes)
	$(BIN)/python tests/mutations/table.py --write

mutations: $(READY) ## plant bugs one at a time and see which ones the tests notice (half an hour)
	$(BIN)/python tests/mutations/run.py

screenshots: $(READY) ## the pictures of docs/console.md: needs Chromium
	$(BIN)/python tests/console/screenshots.py docs/console

docs: $(READY) ## make the generated pages again
	$(BIN)/milepost config reference > docs/configuration.md
	$(BIN)/python -m milepost.broker.connection.handlers.reference > docs/wire.md
	$(BIN)/python -m milepost.rest.reference > docs/rest.md
	$(BIN)/python -m milepost.cli.manual > docs/cli.md
	$(BIN)/python -m milepost.broker.policies.reference > docs/policies.md

bench: $(READY) ## the goals of speed, as docs/benchmarks.md: beside Pulsar and Kafka (MILEPOST_PEER), an earlier commit (BEFORE=)
	$(BIN)/python -m bench goals $(if $(BEFORE),--before $(BEFORE)) $(OPTIONS) || broken=1; \
	  $(BIN)/python -m bench report && [ -z "$$broken" ]

lock: $(READY) ## pin the dependencies again
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml requirements/build.in --extra dev --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-header -o requirements/dev.lock

clean: ## remove what the targets made, but no data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
