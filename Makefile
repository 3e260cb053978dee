# Each target makes the virtual environment it needs. PYTHON names the interpreter;
# without it the newest of 3.11, 3.10 and 3.9 that is installed is taken, for which
# TensorFlow 2.15 has wheels.
VENV ?= .venv
PYTHON ?= $(shell for p in python3.11 python3.10 python3.9 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 9) <= sys.version_info < (3, 12))' \
	2>/dev/null && echo $$p && break; done)
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --disable-pip-version-check
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: demo test lint docs wheel bench clean help

help:
	@echo 'make demo    train, evaluate and export a ranker on synthetic lists'
	@echo 'make test    run the tests (TFR_EXT_DATA=DIR adds those on real data)'
	@echo 'make lint    formatting, lint and types'
	@echo 'make docs    build the documentation into site/'
	@echo 'make wheel   build the wheel, install it in an empty environment, import it'
	@echo 'make bench   speed against named peers'

demo: $(VENV)/.installed
	$(RUN) -m pipelines.train --flagfile=configs/quickstart.cfg

test: $(VENV)/.installed-test
	$(RUN) -m pytest -n 2

lint: $(VENV)/.installed-test
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy

docs: $(VENV)/.installed-docs
	$(RUN) -m mkdocs build --strict

bench: $(VENV)/.installed-test
	$(RUN) benchmarks/smoothi_speed.py
	$(RUN) benchmarks/parse_speed.py

wheel: $(VENV)/.installed
	$(PIP) install --quiet build
	rm -rf dist build $(VENV)-wheel
	$(RUN) -m build --wheel --outdir dist
	$(call make_venv,$(VENV)-wheel)
	$(VENV)-wheel/bin/python -m pip --disable-pip-version-check install --quiet dist/*.whl
	cd dist && ../$(VENV)-wheel/bin/python -c \
	'import tfr_ext; print(tfr_ext.__version__, tfr_ext.losses.SmoothILoss())'
	cd dist && ../$(VENV)-wheel/bin/python -m pipelines.train --helpshort \
	| grep -e --loss_param
	rm -rf $(VENV)-wheel

clean:
	rm -rf $(VENV) $(VENV)-wheel build dist site models

# Some systems ship Python without what venv needs to bring pip; virtualenv has it.
define make_venv
	@test -n '$(PYTHON)' || { echo 'No Python 3.9, 3.10 or 3.11 was found, which' \
	'TensorFlow 2.15 needs. Install one, or name it: make PYTHON=/path/to/python'; \
	exit 1; }
	$(PYTHON) -m venv $(1) 2>/dev/null || { rm -rf $(1) && \
	$(PYTHON) -m pip install --quiet --target=$(1)-tool virtualenv && \
	PYTHONPATH=$(1)-tool $(PYTHON) -m virtualenv --quiet $(1) && rm -rf $(1)-tool; }
endef

$(VENV)/bin/python:
	$(call make_venv,$(VENV))

$(VENV)/.installed: setup.py pyproject.toml | $(VENV)/bin/python
	$(PIP) install --quiet -e .
	touch $@

$(VENV)/.installed-%: setup.py pyproject.toml | $(VENV)/bin/python
	$(PIP) install --quiet -e .[$*]
	touch $@ $(VENV)/.installed
