# Sets up a checkout from nothing: 'make demo' runs a demo, 'make test' runs the tests, 'make help' lists all targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# setuptools comes from the lock file, so building the project itself downloads nothing
INSTALL_SELF := $(PIP) install --quiet --no-build-isolation --no-deps --no-index --editable ./agent --editable . --editable ./tools
# The distributions, lbdns-agent first since the others need it
PROJECTS := agent/pyproject.toml pyproject.toml tools/pyproject.toml

# Debian packages of the programs that the lab runs (without Pound, which Debian 12 lacks)
LAB_PACKAGES := apache2 haproxy iproute2 libapache2-mod-php memcached nginx-light openssl perl-base php-memcached unbound
# Debian packages of the programs that the tests run
DEBIAN_PACKAGES := $(LAB_PACKAGES) apache2-utils bind9 bind9-dnsutils caddy chromium clang knot-dnsutils ldnsutils nsd \
	dnsperf ethtool gdnsd knot libfaketime pdns-backend-bind pdns-server prometheus \
	curl dnsmasq-base fish gcc groff-base httperf iputils-ping jq libc-bin musl-tools nats-server procps rpm util-linux wrk zsh

# The native extension is built and tested too if cargo is found; rustup often installs cargo outside PATH
export PATH := $(PATH):$(HOME)/.cargo/bin
NATIVE := $(if $(shell PATH='$(PATH)' command -v cargo),$(VENV)/.native)

# The program that answers in the kernel is built and tested too if clang is found. It needs no headers and no libraries
CLANG ?= clang
XDP_OBJECT := lbdns/server/xdp/answers.o
XDP := $(if $(shell command -v $(CLANG)),$(XDP_OBJECT))

# Debian packages of the programs that build and check what users install
PACKAGING_PACKAGES := clang iproute2 mmdebstrap openssh-client qemu-user-static systemd-container
PACKAGING := PYTHONPATH=packaging $(BIN)/python -m lbdns_packaging
MACHINES := PYTHONPATH=packaging $(BIN)/python -m lbdns_machines

SYSTEMD := /run/systemd/system
PYTEST_OPTIONS ?=
# More processes than processors, because a test that runs real programs mostly waits for them
TEST_PROCESSES ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)

.DEFAULT_GOAL := help
.PHONY: help demo test lint format venv native xdp no-clang install lock lab-quick faults faults-quick soak native-sanitize \
	dist packages packages-check image-check machines machines-quick machines-upgrades machines-cgroups deps-debian deps-lab deps-packaging debian-packages check-python clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.runtime ## run a complete farm on the loopback and print commands to try
	@$(BIN)/lbdns demo

test: lint $(NATIVE) $(XDP) ## run lint, then all tests in parallel (PYTEST_OPTIONS='-k name' selects some)
	$(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder --retry-alone 6 --durations 15 $(PYTEST_OPTIONS)

lab-quick: $(VENV)/.dev ## run the shortest lab study, about 4 minutes on an otherwise idle machine (as root)
	rm -rf build/lab
	$(BIN)/lbdns-lab webstone --quick --out build/lab

faults: $(VENV)/.dev ## inject every fault into a running lbdns; updates docs/reliability.md; about 30 minutes (as root)
	@mkdir -p build/faults
	$(BIN)/python -m lbdns_tools.faults run --update --json build/faults.json --logs build/faults

faults-quick: $(VENV)/.dev ## inject the most important faults, about 3 minutes (as root)
	@mkdir -p build/faults-quick
	$(BIN)/python -m lbdns_tools.faults run --quick --retry --json build/faults-quick.json --logs build/faults-quick

MINUTES ?= 60
soak: $(VENV)/.dev ## half the maximum load for MINUTES=60 with random faults; updates docs/reliability.md (as root)
	@mkdir -p build/soak
	$(BIN)/python -m lbdns_tools.faults soak --minutes $(MINUTES) --update --json build/soak.json --logs build/soak

lint: $(VENV)/.dev ## check format, lint rules and types, changing nothing
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

format: $(VENV)/.dev ## format the code and apply ruff's automatic fixes
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

venv: $(VENV)/.runtime ## only build .venv, with the dependencies of the programs

# The stamps: .runtime stands for the project and its dependencies; .lab, .dev and .packaging add those of the lab, of the
# tests and of building packages. They are rebuilt when a lock file or a pyproject.toml has changed. ALONE: two concurrent
# makes must not install into one .venv at the same time; the second one finds the stamp of the first.
ALONE := $(if $(shell command -v flock),flock Makefile)

native: $(VENV)/.native $(or $(XDP),no-clang) ## build the native extension, which makes lbdns answer faster (needs cargo)

xdp: $(XDP_OBJECT) ## build the XDP program, which answers in the kernel (needs clang)

no-clang:
	@echo "lbdns: clang not found: the XDP program is not built (on Debian: apt-get install clang, then make xdp)"

# For little-endian processors, and with the instructions of Linux 5.10. The verifier accepts the code of clang 14 and 19
$(XDP_OBJECT): $(wildcard native/xdp/*.c native/xdp/*.h)
	@command -v $(CLANG) > /dev/null || { echo "lbdns: the XDP program needs clang: apt-get install clang" >&2; exit 2; }
	@$(CLANG) -O2 -target bpfel -mcpu=v2 -Wall -Wextra -Werror -c native/xdp/answers.c -o $@

$(VENV)/.runtime: requirements.lock $(PROJECTS) | check-python
	@$(ALONE) $(MAKE) --no-print-directory STAMP=$@ LOCK=requirements.lock THEN='$(INSTALL_SELF)' install

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	@$(ALONE) $(MAKE) --no-print-directory STAMP=$@ LOCK=requirements-dev.lock THEN=: install

$(VENV)/.lab: requirements-lab.lock $(VENV)/.runtime
	@$(ALONE) $(MAKE) --no-print-directory STAMP=$@ LOCK=requirements-lab.lock THEN=: install

$(VENV)/.packaging: requirements-packaging.lock $(VENV)/.runtime
	@$(ALONE) $(MAKE) --no-print-directory STAMP=$@ LOCK=requirements-packaging.lock THEN=: install

# Optional, since Python alone does everything. A separate stamp, since 'make demo' must not wait for a compiler.
$(VENV)/.native: $(wildcard native/*.toml native/Cargo.lock native/src/*.rs) $(VENV)/.dev
	@command -v cargo > /dev/null || { echo "lbdns: the native extension needs cargo: https://rustup.rs" >&2; exit 2; }
	@echo "lbdns: building the native extension ..."
	@# maturin is a program of .venv, which must be in PATH
	@PATH='$(abspath $(BIN)):$(PATH)' $(ALONE) $(PIP) install --quiet --no-build-isolation --no-deps ./native && touch $@

SANITIZERS := address thread
native-sanitize: ## run the Rust tests with the address and thread sanitizers, 5 minutes (needs nightly Rust with rust-src)
	for each in $(SANITIZERS); do \
	    (cd tests/native && RUSTFLAGS="-Zsanitizer=$$each" cargo +nightly test --release --locked --tests -Zbuild-std \
	        --target $$(rustc -vV | sed -n 's/^host: //p') --target-dir ../../build/native-$$each) || exit 1; \
	done

install:
	@set -e; \
	stale=; for file in $(LOCK) $(PROJECTS); do [ $(STAMP) -nt $$file ] || stale=1; done; [ "$$stale" ] || exit 0; \
	[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); \
	  echo "lbdns: $(PYTHON) can't build a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 2; }; \
	echo "lbdns: installing the packages of $(LOCK) into $(VENV) ..."; \
	$(PIP) install --quiet --no-deps --require-hashes --requirement $(LOCK); \
	$(THEN); \
	touch $(STAMP)

check-python:
	@command -v $(PYTHON) > /dev/null || { \
	  echo "lbdns: $(PYTHON) not found; install Python 3.11 or newer, or name one: make PYTHON=python3.12 ..." >&2; \
	  exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "lbdns: $$($(PYTHON) --version 2>&1) is too old: lbdns needs 3.11 or newer; make PYTHON=python3.12 ..." >&2; \
	  exit 2; }

# Run this with the oldest supported Python, so that the lock files suit every newer one too. They contain no address
# of a package index: pip's own configuration sets where packages come from.
PIP_COMPILE = CUSTOM_COMPILE_COMMAND='make lock' $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe \
	--strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options $(LOCK_OPTIONS)
LOCK_OPTIONS ?=

lock: $(VENV)/.dev ## regenerate the lock files (LOCK_OPTIONS=--upgrade for newer versions)
	@mkdir -p build
	for kind in runtime dev lab packaging; do $(BIN)/python tools/lock_inputs.py $$kind > build/$$kind.in; done
	$(PIP_COMPILE) --output-file requirements.lock build/runtime.in
	$(PIP_COMPILE) --constraint requirements.lock --output-file requirements-dev.lock build/dev.in
	$(PIP_COMPILE) --constraint requirements-dev.lock --output-file requirements-lab.lock build/lab.in
	$(PIP_COMPILE) --constraint requirements-dev.lock --output-file requirements-packaging.lock build/packaging.in

deps-debian: ## install the Debian packages that the tests use (as root)
	@$(MAKE) --no-print-directory WHAT='the tests' AS=$@ PACKAGES='$(DEBIAN_PACKAGES)' debian-packages

deps-lab: $(VENV)/.lab ## install what lbdns-lab needs: Python packages into .venv, and Debian packages (as root)
	@$(MAKE) --no-print-directory WHAT='the lab' AS=$@ PACKAGES='$(LAB_PACKAGES)' debian-packages

deps-packaging: $(VENV)/.packaging ## install what dist and packages need: Python and Debian packages (as root)
	@$(MAKE) --no-print-directory WHAT='building packages' AS=$@ PACKAGES='$(PACKAGING_PACKAGES)' debian-packages

debian-packages:
	@command -v apt-get > /dev/null || { echo "lbdns: apt-get not found: this system is not Debian" >&2; exit 2; }
	@set -eu; \
	wanted="$(PACKAGES)"; \
	$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || wanted="$$wanted python3-venv"; \
	lacking=""; \
	for package in $$wanted; do \
	  dpkg-query -W -f '$${db:Status-Status}' $$package 2> /dev/null | grep -qx installed || lacking="$$lacking $$package"; \
	done; \
	if [ -z "$$lacking" ]; then echo "lbdns: all Debian packages for $(WHAT) are installed"; exit 0; fi; \
	if [ "$$(id -u)" != 0 ]; then \
	  echo "lbdns: installing$$lacking needs root: sudo make $(AS)" >&2; exit 2; fi; \
	apt-get update --quiet=2; \
	DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 --no-install-recommends $$lacking; \
	: "Debian starts the servers that it installs; stop them, since tests and lab start their own"; \
	for package in $$lacking; do \
	  case $$package in \
	    apache2|caddy|nsd|knot|pdns-server|gdnsd|prometheus|haproxy|unbound) service=$${package%-server};; \
	    bind9) service=named;; nginx-light) service=nginx;; *) continue;; esac; \
	  if [ -d $(SYSTEMD) ]; then systemctl disable --quiet --now $$service; \
	  else service $$service stop > /dev/null 2>&1 || true; fi; \
	done

dist: $(VENV)/.packaging ## build wheels, source archives and lbdns-agent.pyz into dist/ (as root)
	$(PACKAGING) wheels
	$(PACKAGING) native

packages: dist ## build packages of Debian and RPM into dist/, after dist (as root)
	$(PACKAGING) packages

packages-check: packages ## install and run each artefact in new root file systems of Debian 11, 12 and 13 (as root)
	$(PACKAGING) check

image-check: packages ## build and run the Containerfile's image with podman and crun, under a minute (as root)
	$(PACKAGING) image

machines: packages ## install the packages on machines booted with systemd, and use them; about 15 minutes (as root)
	$(MACHINES) full

machines-quick: $(VENV)/.packaging ## the same with one name server and one web server, about 3 minutes (as root)
	$(MACHINES) quick

machines-upgrades: packages ## only upgrade and downgrade name servers on such machines, about 5 minutes (as root)
	$(MACHINES) upgrades

machines-cgroups: packages ## compare the agent's metrics with control groups of version 2 in a virtual machine, about 5 minutes (as root)
	$(MACHINES) control-groups --out build/machines-cgroups

clean: ## remove everything that was built
	rm -rf $(VENV) $(XDP_OBJECT) *.egg-info build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
