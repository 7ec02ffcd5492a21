# Everything a checkout needs, from nothing: 'make demo' runs it, 'make test' tests it. 'make help' lists the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# setuptools comes from the lock, so building the project itself asks no index for anything
INSTALL_SELF := $(PIP) install --quiet --no-build-isolation --no-deps --no-index --editable ./agent --editable . --editable ./tools
# The distributions, lbdns-agent first since the others need it
PROJECTS := agent/pyproject.toml pyproject.toml tools/pyproject.toml

# What the lab runs besides Python, by Debian's package names (no Pound: Debian 12 has none)
LAB_PACKAGES := apache2 haproxy iproute2 nginx-light perl-base unbound
# What the tests run
DEBIAN_PACKAGES := $(LAB_PACKAGES) apache2-utils bind9 bind9-dnsutils chromium knot-dnsutils ldnsutils nsd \
	dnsperf gdnsd knot pdns-backend-bind pdns-server prometheus \
	curl httperf iputils-ping libc-bin procps util-linux wrk

# Tested too where it can be built: where there is a cargo, which rustup puts where PATH often doesn't look
export PATH := $(PATH):$(HOME)/.cargo/bin
NATIVE := $(if $(shell PATH='$(PATH)' command -v cargo),$(VENV)/.native)

SYSTEMD := /run/systemd/system
PYTEST_OPTIONS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test lint format venv native install lock lab-quick deps-debian deps-lab packages check-python clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.runtime ## run everything on the loopback, and print what to try
	@$(BIN)/lbdns demo

test: lint $(NATIVE) ## lint, then all tests in parallel (PYTEST_OPTIONS='-k name' for some)
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --durations 15 $(PYTEST_OPTIONS)

lab-quick: $(VENV)/.dev ## the shortest study of the lab, about 4 minutes on a machine that does nothing else (as root)
	rm -rf build/lab
	$(BIN)/lbdns-lab webstone --quick --out build/lab

lint: $(VENV)/.dev ## format, lint and types, changing nothing
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

format: $(VENV)/.dev ## format and mend what can be mended
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

venv: $(VENV)/.runtime ## only build .venv, with what the programs need

# The stamps: .runtime is the project with what it needs, .lab and .dev what the lab and the tests need on top of it.
# They are made again when a lock or a pyproject.toml has changed. ALONE: two makes side by side must not install into
# one .venv at a time; the second finds the stamp of the first.
ALONE := $(if $(shell command -v flock),flock Makefile)

native: $(VENV)/.native ## build the native part, which answers faster (needs cargo)

$(VENV)/.runtime: requirements.lock $(PROJECTS) | check-python
	@$(ALONE) $(MAKE) --no-print-directory STAMP=$@ LOCK=requirements.lock THEN='$(INSTALL_SELF)' install

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	@$(ALONE) $(MAKE) --no-print-directory STAMP=$@ LOCK=requirements-dev.lock THEN=: install

$(VENV)/.lab: requirements-lab.lock $(VENV)/.runtime
	@$(ALONE) $(MAKE) --no-print-directory STAMP=$@ LOCK=requirements-lab.lock THEN=: install

# Optional: Python alone does everything. Its own stamp, since 'make demo' must not wait for a compiler.
$(VENV)/.native: $(wildcard native/*.toml native/Cargo.lock native/src/*.rs) $(VENV)/.dev
	@command -v cargo > /dev/null || { echo "lbdns: the native part needs cargo: https://rustup.rs" >&2; exit 2; }
	@echo "lbdns: building the native part ..."
	@$(ALONE) $(PIP) install --quiet --no-build-isolation --no-deps ./native && touch $@

install:
	@set -e; \
	stale=; for file in $(LOCK) $(PROJECTS); do [ $(STAMP) -nt $$file ] || stale=1; done; [ "$$stale" ] || exit 0; \
	[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); \
	  echo "lbdns: $(PYTHON) can't build a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 2; }; \
	echo "lbdns: installing into $(VENV) what $(LOCK) says ..."; \
	$(PIP) install --quiet --no-deps --require-hashes --requirement $(LOCK); \
	$(THEN); \
	touch $(STAMP)

check-python:
	@command -v $(PYTHON) > /dev/null || { \
	  echo "lbdns: there is no $(PYTHON); install Python 3.11 or newer, or say which: make PYTHON=python3.12 ..." >&2; \
	  exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "lbdns: $$($(PYTHON) --version 2>&1) is too old: lbdns needs 3.11 or newer; make PYTHON=python3.12 ..." >&2; \
	  exit 2; }

# Resolved with the oldest Python that is supported, so that the locks serve every newer one too. No address of an
# index gets into them: pip's own configuration says where packages come from.
PIP_COMPILE = CUSTOM_COMPILE_COMMAND='make lock' $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe \
	--strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options $(LOCK_OPTIONS)
LOCK_OPTIONS ?=

lock: $(VENV)/.dev ## resolve the dependencies anew (LOCK_OPTIONS=--upgrade for newer ones)
	@mkdir -p build
	for kind in runtime dev lab; do $(BIN)/python tools/lock_inputs.py $$kind > build/$$kind.in; done
	$(PIP_COMPILE) --output-file requirements.lock build/runtime.in
	$(PIP_COMPILE) --constraint requirements.lock --output-file requirements-dev.lock build/dev.in
	$(PIP_COMPILE) --constraint requirements-dev.lock --output-file requirements-lab.lock build/lab.in

deps-debian: ## install the Debian packages that tests use (as root)
	@$(MAKE) --no-print-directory WHAT='the tests' AS=$@ PACKAGES='$(DEBIAN_PACKAGES)' packages

deps-lab: $(VENV)/.lab ## install what lbdns-lab needs: Python's part into .venv, Debian packages (as root)
	@$(MAKE) --no-print-directory WHAT='the lab' AS=$@ PACKAGES='$(LAB_PACKAGES)' packages

packages:
	@command -v apt-get > /dev/null || { echo "lbdns: there is no apt-get: this is no Debian" >&2; exit 2; }
	@set -eu; \
	wanted="$(PACKAGES)"; \
	$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || wanted="$$wanted python3-venv"; \
	lacking=""; \
	for package in $$wanted; do \
	  dpkg-query -W -f '$${db:Status-Status}' $$package 2> /dev/null | grep -qx installed || lacking="$$lacking $$package"; \
	done; \
	if [ -z "$$lacking" ]; then echo "lbdns: all Debian packages for $(WHAT) are there"; exit 0; fi; \
	if [ "$$(id -u)" != 0 ]; then \
	  echo "lbdns: installing$$lacking needs root: sudo make $(AS)" >&2; exit 2; fi; \
	apt-get update --quiet=2; \
	DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 --no-install-recommends $$lacking; \
	: "Debian starts the servers it has just installed; ours start their own, and ports 80 and 53 are not ours"; \
	for package in $$lacking; do \
	  case $$package in \
	    apache2|nsd|knot|pdns-server|gdnsd|prometheus|haproxy|unbound) service=$${package%-server};; \
	    bind9) service=named;; nginx-light) service=nginx;; *) continue;; esac; \
	  if [ -d $(SYSTEMD) ]; then systemctl disable --quiet --now $$service; \
	  else service $$service stop > /dev/null 2>&1 || true; fi; \
	done

clean: ## remove everything that was built
	rm -rf $(VENV) *.egg-info build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
