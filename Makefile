# make demo [ONCE=1] [PORT=8321]    install, ingest the demo corpus, serve it, ask over each protocol; VERBOSE=1: all JSON
# make check [FILE=engine/...]      lint, types and the fast tests; or the tests of one file alone
# make test                         lint, types and all tests, the AIDRE ones over PostgreSQL too: what CI runs
# make coverage [ARGS=]             all tests, and the lines and branches that they reach, into build/coverage
# make programs                     install nginx, HAProxy, Caddy, promtool and tesseract for the tests: needs root
# make bench [NAME=search] [ARGS=]  run the benchmarks, or one with its options, and write their report
# make bench-quick                  five groups in four minutes, as ratios beside the stored ones; fails nothing
# make hostile [NAME=kills] [ARGS=] kills, power cuts, faults, damage and hostile clients in full: hours, some need root
# make processors                   the tests of numbers on each kernel that this processor can run: half an hour
# make scale [ARGS=]                the tests of Ray and Milvus, with the extras for more than one machine: needs a registry
# make clients                      connect published clients of MCP and its conformance suite: needs registries
# make docs                         build the documentation site into build/site; warnings are errors
# make sites                        build the small sites of the tests with their generators, and renew the lists of
#                                   their addresses: NAME=hugo for one; needs pip, npm and Jekyll
# make reference                    write the reference of docs/configuration.md, from api/config
# make twins                        write the asynchronous classes of the client, from those for threads
# make screenshots                  write the screenshots of docs/page.md anew: needs Chromium
# make peers                        install the engines that `make bench` compares with
# make integrations                 the adapters to other frameworks, by the suites of these: needs a registry
# make release [ARGS=--rehearse]    build and check the archives of a release, into dist/; publishes nothing
# make smoke [ARGS=arm64]           try the wheels of dist/ in a root with nothing but Python: needs root, debootstrap
# make lint | clean                 lint and types alone; remove all that was made

PYTHON ?= python3
PORT ?= 8321
ONCE ?=
VERBOSE ?=
NAME ?=
ARGS ?=
FILE ?=
VENV := .venv
BIN := $(VENV)/bin
# Tests wait for servers and children part of their time: half as many workers again as cores keep these busy.
WORKERS := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) * 3 / 2)))
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq

define WITHOUT_KERNEL
from aidre.engine.native import kernel_name
if kernel_name() == "faiss":
    print("The C kernel was not built: searches use FAISS and numpy, slower. It needs a C compiler and Python's headers.")
endef
export WITHOUT_KERNEL

# Python keeps what it compiled: without that, each run of the tests compiles them anew, ten seconds a process.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo lint check test coverage bench bench-quick hostile processors scale docs reference sites twins screenshots peers integrations
.PHONY: release smoke clean programs clients

help:
	@sed -n 's/^# make/make/p' Makefile

$(VENV)/.made:
	@echo "Making $(VENV) and installing the libraries (half a minute the first time) ..."
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml constraints.txt setup.py $(wildcard engine/native/*.[ch]) \
  packages/client/pyproject.toml packages/conformance/pyproject.toml
	$(PIP) install -c constraints.txt -e packages/client -e . -e packages/conformance
	@$(BIN)/python -c "$$WITHOUT_KERNEL"
	@touch $@

# Into the environment: whatever AIDRE_CACHE is, demo and tests find it there, and need no network afterwards.
$(VENV)/.model: $(VENV)/.installed engine/embedding/models/catalogue.py
	$(BIN)/aidre model add default --into $(VENV)/share/aidre
	@touch $@

# torch goes first and by itself: a resolver that meets it later may choose another build of it.
$(VENV)/.torch: $(VENV)/.made
	$(PIP) install "$$(grep '^torch==' constraints.txt)"
	@touch $@

# The packages without what they need: the tests have a driver for PostgreSQL, and `make scale` installs Ray and Milvus.
$(VENV)/.tools: $(VENV)/.torch $(VENV)/.model $(wildcard packages/*/pyproject.toml)
	$(PIP) install -c constraints.txt -e '.[test,bench,docs]'
	$(PIP) install --no-deps --no-build-isolation $(addprefix -e ,$(patsubst %/,%,$(wildcard packages/*/)))
	@touch $@

demo: $(VENV)/.model
	$(BIN)/python demo/run.py --port $(PORT) $(if $(ONCE),--once) $(if $(VERBOSE),--verbose)

lint: $(VENV)/.tools
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/mypy tests benchmarks demo examples
	for tests in packages/*/tests; do $(BIN)/mypy $$tests || exit 1; done

ifdef FILE
check: $(VENV)/.tools
	$(BIN)/ruff check $(filter %.py %.pyi,$(FILE))
	$(BIN)/python -m tests $(FILE)
else
check: lint
	$(PYTEST) -m "not (process or slow or hostile or network)"
endif

test: $(VENV)/.tools
	$(MAKE) --no-print-directory -j 2 --output-sync=target lint docs
	AIDRE_TEST_BACKEND=postgres $(PYTEST) -q tests/conformance/aidre
	$(PYTEST)

# Every line and branch that any test reaches, in some 1.6 times the time of the tests.
coverage: $(VENV)/.tools
	@rm -rf build/coverage
	$(BIN)/python -m coverage run -m pytest -n $(WORKERS) --dist worksteal -q $(ARGS)
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report

programs:
	@.ci/programs

bench: $(VENV)/.tools
	$(BIN)/python -m benchmarks $(NAME) $(ARGS)

bench-quick: $(VENV)/.tools
	$(BIN)/python -m benchmarks.quick $(ARGS)

hostile: $(VENV)/.tools
	$(BIN)/python -m tests.hostile $(NAME) $(ARGS)

processors: $(VENV)/.tools
	$(BIN)/python -m tests.commands.processors -n auto --dist worksteal

# What CI does without: several hundred MB of libraries, and servers that take half a minute to start.
SCALE := ray,milvus,scale
# The Milvus server listens on every interface: it runs in a network namespace of its own, and the tests with it.
MILVUS := $(BIN)/python -m tests.commands.milvus_server
scale: $(VENV)/.tools
	$(PIP) install -c constraints.txt -e '.[$(SCALE)]'
	$(BIN)/python -m pytest -q packages/ray/tests/test_ray.py $(ARGS)
	$(MILVUS) $(BIN)/python -m pytest -q packages/milvus tests/backends -k milvus $(ARGS)
	AIDRE_TEST_BACKEND=milvus $(MILVUS) $(BIN)/python -m pytest -q tests/conformance/aidre $(ARGS)

# Seven clients of MCP, the Inspector and the conformance suite, 700 MB: CI does without.
clients: $(VENV)/.tools
	AIDRE_TEST_CLIENTS=1 $(BIN)/python -m pytest -q tests/conformance/nlweb/test_published_mcp_clients.py $(ARGS)

# The theme prints a notice about a release that is not used here.
docs: $(VENV)/.tools
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

sites: $(VENV)/.tools
	$(BIN)/python -m tests.commands.site_builds $(NAME)

reference: $(VENV)/.tools
	$(BIN)/python -m tests.commands.reference

twins: $(VENV)/.tools
	$(BIN)/python -m tests.commands.twins

screenshots: $(VENV)/.tools
	$(BIN)/python demo/screenshots.py

# The engines to compare with, in environments of their own: some 3 GB in the cache folder.
peers: $(VENV)/.tools
	$(BIN)/python -m benchmarks.peers install

# Each in an environment of its own.
INTEGRATIONS := haystack langchain llama_index
integrations:
	for name in $(INTEGRATIONS); do \
	  bin=.venv-integrations/$$name/bin; $(PYTHON) -m venv .venv-integrations/$$name && \
	  $$bin/python -m pip --disable-pip-version-check -qq install -c constraints.txt ./packages/client . && \
	  $$bin/python -m pip --disable-pip-version-check -qq install -r integrations/$$name/requirements-test.txt && \
	  $$bin/python -m pip --disable-pip-version-check -qq install --no-deps ./integrations/$$name && \
	  $$bin/aidre model add default --into .venv-integrations/$$name/share/aidre && \
	  (cd integrations/$$name && ../../$$bin/python -m pytest -q) || exit 1; \
	done

# Version, changelog and tag must agree, and the working tree be clean.
release: $(VENV)/.tools
	$(PIP) install -c constraints.txt -e '.[release]'
	$(BIN)/python -m tests.commands.release $(ARGS)

smoke: $(VENV)/.tools
	$(BIN)/python -m tests.commands.empty_root $(ARGS)

clean:
	rm -rf $(VENV) .venv-integrations .demo build dist *.egg-info packages/*/build packages/*/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks
