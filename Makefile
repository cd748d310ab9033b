# SPDX-License-Identifier: Apache-2.0
# Two commands: `make demo` and `make test`. Both use one environment, .venv, made when it is missing or out of date.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --progress-bar off --no-compile
# pip compiles what it installs on one core, tests of the libraries too; the demo needs little of it.
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib || true
# An environment of locked versions stays one, until `make clean`.
LOCKED ?= $(if $(wildcard $(VENV)/.locked),1)
# What the demo needs, the messages built for it, and on top what the tests need; of locked versions all at once.
RUNNING := $(VENV)/$(if $(LOCKED),.locked,.running)
MESSAGES := $(VENV)/.messages
INSTALLED := $(VENV)/.installed
# The package's Python modules are used where they lie; only these change what is installed.
SOURCES := $(if $(LOCKED),$(wildcard requirements/*)) pyproject.toml setup.py $(wildcard $(addprefix continuum_robot/rod/kernel/,CMakeLists.txt *.hpp *.cpp))
DEFINITIONS := continuum_robot/messages.py $(wildcard msg/*.msg srv/*.srv action/*.action)
# Only the loopback, unless the caller opens it.
HOURS ?= 1
export ROS_AUTOMATIC_DISCOVERY_RANGE ?= LOCALHOST
# cmake 3.20 or newer builds the kernel; where there is none it comes from PyPI.
CMAKE_FROM_PYPI := $(shell cmake --version 2>/dev/null | awk 'NR==1 {split($$3, v, "."); ok = v[1] > 3 || (v[1] == 3 && v[2] >= 20)} END {if (!ok) print "cmake"}')

.PHONY: help environment lock demo test faults soak lint pages gallery docs release clean

help:  ## What can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(RUNNING): $(SOURCES)
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 10) else "continuum_robot needs Python 3.10 or newer, $(PYTHON) is %d.%d: make PYTHON=python3.11" % sys.version_info[:2])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@rm -f $(VENV)/.running $(VENV)/.locked $(VENV)/.messages $(VENV)/.installed
ifneq ($(LOCKED),)
	@lock=$$($(BIN)/python requirements/lock.py --name); test -f $$lock || \
	  { echo "$$lock does not exist: write it with 'make lock', or install without LOCKED=1" >&2; exit 1; }; \
	  echo "Installing what $$lock names into $(VENV) (once) ..."; \
	  grep -E '^(packaging|setuptools)==' $$lock > $(VENV)/locked-first.txt && \
	  $(PIP) --require-hashes -r $(VENV)/locked-first.txt && $(PIP) --require-hashes --no-build-isolation -r $$lock
	@echo "Building the rod kernel and the control cycle ..."
	@$(PIP) --no-build-isolation --no-deps -e .
else
	@echo "Installing ROS 2 and the libraries into $(VENV) (once), building the rod kernel and the control cycle ..."
	@$(PIP) 'setuptools>=77' 'setuptools-scm>=8' 'Cython>=3.1' $(CMAKE_FROM_PYPI)
	@$(PIP) --no-build-isolation -e ".[ros,viz]"
endif
	@touch $(RUNNING)

$(MESSAGES): $(RUNNING) $(DEFINITIONS)
	@$(BIN)/python -m continuum_robot.messages
	@touch $(MESSAGES)

$(INSTALLED): $(MESSAGES) requirements/lock.py
ifeq ($(LOCKED),)
	@echo "Installing what the tests need ..."
	@$(BIN)/python requirements/lock.py --needed > $(VENV)/needed.txt && $(PIP) -r $(VENV)/needed.txt
endif
	@$(COMPILE)
	@touch $(INSTALLED)

environment: $(INSTALLED)  ## The virtual environment with ROS 2, the libraries and the messages; LOCKED=1: exactly the locked versions

lock:  ## Write the versions and hashes for LOCKED=1 again, as they are on PyPI now (two minutes)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python requirements/lock.py

demo: $(MESSAGES)  ## Bring the simulated five-tendon robot up, track the paper's trajectory, leave a report in runs/
	$(BIN)/continuum-robot demo $(ARGS)

test: $(INSTALLED)  ## Linters and all tests, or with ARGS="..." those that pytest selects by it; LONG=1: the long ones too
ifdef ARGS
	$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest $(if $(LONG),-m "long or not long") $(ARGS)
else
	LONG=$(LONG) test/all.sh $(BIN)/python
endif

faults: $(INSTALLED)  ## Break everything once on a simulated robot, half an hour; ARGS="--kinds NAMES --virtual-only --robot ROBOT --seed N"
	@PYTHONPATH=test $(BIN)/python -m faults faults $(ARGS)

soak: $(INSTALLED)  ## Random faults, kills and resets for HOURS=1, on one stack in processes
	@PYTHONPATH=test $(BIN)/python -m faults soak --hours $(HOURS) $(ARGS)

lint: $(INSTALLED)  ## ruff, the arrows between the folders, and mypy on what runs on the robot
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	$(BIN)/mypy launch/sim.launch.py launch/hardware.launch.py launch/rviz.launch.py

pages: $(INSTALLED)  ## Write every page of docs/ again that is made from the code, and name those that changed
	@cd docs && $(CURDIR)/$(BIN)/python -m pages

gallery: $(INSTALLED)  ## Run the examples, keep their plots for docs/gallery.md (some minutes)
	@cd docs && $(CURDIR)/$(BIN)/python -m pages.gallery

docs: $(INSTALLED)  ## The documentation as a site in build/site, warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "Open build/site/index.html, or with a search: $(BIN)/python -m http.server -b 127.0.0.1 -d build/site"

release: $(INSTALLED)  ## Build sdist and wheel of the newest tag and check both; uploads nothing
	$(BIN)/python requirements/release.py

clean:  ## Remove the environment and what was built
	rm -rf $(VENV) build install log *.egg-info
