# Each target makes the virtual environment it needs, in VENV.
#
# STACK=A is TensorFlow 2.15 with TensorFlow Ranking, on Python 3.10 and 3.11; STACK=B is
# TensorFlow 2.21 with tf-keras and TensorFlow Ranking, and STACK=C TensorFlow 2.21 with
# Keras 3, as pip gives it, both on Python 3.10 to 3.13. PYTHON names the interpreter.
# What is not given is chosen: A if there is a Python for it, else B.
VENV ?= .venv
RANGE_A := (3, 10) <= v < (3, 12)
RANGE_B := (3, 10) <= v < (3, 14)
RANGE_C := (3, 10) <= v < (3, 14)
# find_python: the first of some interpreters whose version v is in a range.
find_python = $(shell for p in $(2); do $$p -c \
	'import sys; v = sys.version_info; sys.exit(not ($(1)))' 2>/dev/null \
	&& echo $$p && break; done)
ALL_A := python3.11 python3.10 python3 python
ALL_B := $(ALL_A) python3.13 python3.12
ALL_C := python3.13 $(wildcard $(HOME)/.pyenv/versions/3.13.*/bin/python) $(ALL_B)
ifndef STACK
  STACK := $(if $(call find_python,$(RANGE_A),$(or $(PYTHON),$(ALL_A))),A,B)
endif
override PYTHON := $(call find_python,$(RANGE_$(STACK)),$(or $(PYTHON),$(ALL_$(STACK))))
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --disable-pip-version-check
# The two commands of docs/guide/installing.md, where the code has them for its error messages.
INSTALL_B = "$$($(PYTHON) -c 'import runpy; \
	print(runpy.run_path("tfr_ext/_stack.py")["INSTALL_B"])')"
# The extras of the package that a stack has, and what else its tests need. Apache Beam
# takes older releases of what TensorFlow brings, so that stack C goes without it.
EXTRAS_A := tfr,datasets
EXTRAS_B := datasets
EXTRAS_C :=
NEEDED_BY_TESTS := requirements/test.txt requirements/table.txt requirements/gbm.txt
NEEDED_BY_TESTS += $(if $(filter C,$(STACK)),,requirements/beam.txt)
# A process for each core, and a file is the work of one: what is slow in it is made once.
PYTEST = $(RUN) -m pytest -n logical --maxprocesses 8 --dist loadfile
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: demo test test-all test-kernels test-dask lint docs figures examples wheel dist \
	try-wheel release bench fuzz bazel reproduce clean help

help:
	@echo 'make demo    train, evaluate and export a ranker on synthetic lists'
	@echo 'make test    each law once for each loss, each command once (TFR_EXT_DATA=DIR,'
	@echo '             which has MQ2008/Fold1/train.txt and so on, adds tests on real'
	@echo '             data; TESTS=... are arguments of pytest, such as a file)'
	@echo 'make test-all    with them every case of every grid (TESTS="-m grid": these'
	@echo '             alone)'
	@echo 'make test-kernels    those that compare numbers of two graphs, with the kernels'
	@echo '             that TensorFlow has for other processors'
	@echo 'make test-dask    shards that workers of Dask write'
	@echo 'make lint    formatting, lint and types'
	@echo 'make docs    build the documentation into site/'
	@echo 'make figures draw the figures of docs/losses'
	@echo 'make examples    run examples/ and write their pages and notebooks (STACK=A or B)'
	@echo 'make wheel   build the wheel, install it in an empty environment, and run the'
	@echo '             commands of README.md there (make try-wheel: all but building it)'
	@echo 'make release build what one would publish into dist/, and check it; it tags and'
	@echo '             uploads nothing'
	@echo 'make bench   speed against named peers (TFR_EXT_DATA adds what needs data)'
	@echo 'make fuzz    the readers on 20,000 damaged files of each format, and the losses'
	@echo '             on random lists amid padding, with every type of scores'
	@echo 'make bazel   build with Bazel and run a few tests, see docs/bazel.md'
	@echo '             (BAZEL_TESTS=//... runs all)'
	@echo 'make reproduce DATA=DIR    the tables of the papers, for docs/reproduction'
	@echo '             (PAPER=smoothi, wassrank, pirank, kl or rankers for one page)'
	@echo 'STACK=A|B|C and PYTHON=... choose TensorFlow 2.15, 2.21 with tf-keras or 2.21'
	@echo 'with Keras 3, and the interpreter.'

demo: $(VENV)/.installed
	$(RUN) -m pipelines.train --flagfile=configs/quickstart.cfg

test: $(VENV)/.installed-test
	$(PYTEST) -m 'not grid' $(TESTS)

test-all: $(VENV)/.installed-test
	$(PYTEST) $(TESTS)

# TensorFlow's kernels depend on the processor: each of these chooses others, and so
# other roundings.
KERNELS ?= TF_ENABLE_ONEDNN_OPTS=0 ONEDNN_MAX_CPU_ISA=AVX2 ONEDNN_MAX_CPU_ISA=SSE41
test-kernels: $(VENV)/.installed-test
	for kernel in $(KERNELS); do echo "$$kernel" && env "$$kernel" $(PYTEST) \
	-m 'two_graphs and not grid' $$(grep -rl two_graphs tests --include=test_*.py) $(TESTS) \
	|| exit 1; done

# Apache Beam on Dask, which nothing else needs.
test-dask: $(VENV)/.installed-test $(VENV)/.installed-dask
	$(RUN) -m pytest tests/pipelines/preparing/test_dask.py

lint: $(VENV)/.installed-test
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy

docs: $(VENV)/.installed-docs
	$(RUN) -m mkdocs build --strict

figures: $(VENV)/.installed
	$(RUN) benchmarks/draw_losses.py
	$(RUN) benchmarks/smoothi_chaos.py

examples: $(VENV)/.installed-examples
	$(RUN) examples/build.py

bench: $(VENV)/.installed-test $(VENV)/.installed-gbm
	$(RUN) benchmarks/smoothi_speed.py
	$(RUN) benchmarks/pirank_speed.py
	$(RUN) benchmarks/wass_rank_speed.py
	$(RUN) benchmarks/kl_speed.py
	$(RUN) benchmarks/baselines_speed.py
	$(RUN) benchmarks/soft_sort_speed.py
	$(RUN) benchmarks/sinkhorn_sort_speed.py
	$(RUN) benchmarks/growth.py --figure docs/figures/growth.png
	$(RUN) benchmarks/parse_speed.py
	$(RUN) benchmarks/input_speed.py
	$(RUN) benchmarks/input_wait.py
	$(RUN) benchmarks/worker_input.py
	$(RUN) benchmarks/read_memory.py
	$(RUN) benchmarks/fit_memory.py
	$(RUN) benchmarks/strategies.py
	$(RUN) benchmarks/serving_speed.py
	$(RUN) benchmarks/scorer_speed.py
	$(if $(TFR_EXT_DATA),$(RUN) benchmarks/loss_share.py --data '$(TFR_EXT_DATA)')
	$(if $(TFR_EXT_DATA),$(RUN) benchmarks/kept_memory.py --data '$(TFR_EXT_DATA)')
	$(if $(TFR_EXT_DATA),$(RUN) benchmarks/epoch_options.py --data '$(TFR_EXT_DATA)')

fuzz: $(VENV)/.installed-test
	TFR_EXT_FUZZ=20000 $(RUN) -m pytest tests/data/letor/test_fuzz.py \
	tests/data/elwc/test_fuzz.py tests/evaluation/test_fuzz.py
	TFR_EXT_FUZZ=10 $(PYTEST) tests/losses/test_extremes.py \
	tests/losses/tfr/test_tfr_extremes.py

BAZEL ?= bazel
BAZEL_PYTHON = --python_path=$(abspath $(RUN))
BAZEL_TESTS ?= $$($(BAZEL) query \
	'filter("/test_(smoothi|objectives|buckets|evaluate)$$", //...)')

bazel: $(VENV)/.installed-test
	$(BAZEL) build $(BAZEL_PYTHON) //...
	$(BAZEL) test $(BAZEL_PYTHON) $(BAZEL_TESTS)

reproduce: $(VENV)/.installed $(VENV)/.installed-gbm
	@test -n '$(DATA)' || { echo 'DATA must name the directory with MQ2008/Fold1'; \
	exit 1; }
	-$(if $(filter-out kl,$(PAPER)),,$(RUN) benchmarks/first_stage.py --data '$(DATA)')
	lines=$$($(RUN) benchmarks/reproduction.py --list $(PAPER:%=--page %)) || exit 1; \
	echo "$$lines" | { failed=; while read -r name flags; do test -n "$$name" || continue; \
	$(RUN) -m pipelines.experiment $$flags --manual_dir='$(DATA)' \
	--output_dir=models/experiments/$$name </dev/null || failed="$$failed $$name"; \
	done; \
	$(RUN) benchmarks/reproduction.py $(PAPER:%=--page %) && test -z "$$failed" \
	|| { echo "Failed, or with failed cells:$$failed"; exit 1; }; }
	$(if $(PAPER),,$(RUN) benchmarks/epoch_times.py --data '$(DATA)')

wheel: dist
	$(MAKE) try-wheel

dist: | $(VENV)/bin/python
	$(PIP) install --quiet build
	rm -rf dist build
	$(RUN) -m build --wheel --outdir dist

# By itself for a second stack, as the wheel is the same. The environment goes again,
# unless it is to be that of the tests, VENV. README: words of which a command has one to
# be run.
WHEEL_VENV ?= $(VENV)-wheel
try-wheel:
	@test -e dist/*.whl || { echo 'dist/ has no wheel: make wheel builds it'; exit 1; }
	rm -rf $(WHEEL_VENV)
	$(call make_venv,$(WHEEL_VENV))
	$(call install_wheel,$(WHEEL_VENV))
	$(WHEEL_VENV)/bin/python tests/readme.py $(README)
	$(if $(filter $(VENV),$(WHEEL_VENV)),,rm -rf $(WHEEL_VENV))

# The wheel is made from the source distribution, so that both are tried.
release: $(VENV)/.installed
	$(PIP) install --quiet build twine
	rm -rf dist build
	$(RUN) -m build --outdir dist
	$(RUN) -m twine check --strict dist/*
	@version=$$($(RUN) tests/release.py) && echo "dist/ has what to publish as" \
	"$$version. Then: git tag -a v$$version -m 'Release $$version'"

clean:
	rm -rf $(VENV) $(VENV)-wheel build dist site models

# The wheel first, so that nothing newer than what it takes comes along.
define install_wheel
	$(1)/bin/pip --disable-pip-version-check install --quiet \
	"$$(echo dist/*.whl)$(EXTRAS_$(STACK):%=[%])"
	$(call install_tfr,$(1))
endef

# What pip cannot resolve with TensorFlow 2.21.
define install_tfr
	$(if $(filter B,$(STACK)),PATH="$(abspath $(1))/bin:$$PATH" sh -ec $(INSTALL_B))
endef

# Some systems ship Python without what venv needs to bring pip; virtualenv has it.
define make_venv
	@test -n '$(PYTHON)' || { echo 'No Python for STACK=$(STACK) was found (A: 3.10' \
	'or 3.11, B and C: 3.10 to 3.13). Name one: make PYTHON=/path/to/python'; exit 1; }
	$(PYTHON) -m venv $(1) 2>/dev/null || { rm -rf $(1) && \
	$(PYTHON) -m pip install --quiet --target=$(1)-tool virtualenv && \
	PYTHONPATH=$(1)-tool $(PYTHON) -m virtualenv --quiet $(1) && rm -rf $(1)-tool; }
endef

$(VENV)/bin/python:
	$(call make_venv,$(VENV))

EDITABLE = -e '.$(EXTRAS_$(STACK):%=[%])'

$(VENV)/.installed: setup.py pyproject.toml requirements/datasets.txt | $(VENV)/bin/python
	$(PIP) install --quiet $(EDITABLE)
	$(call install_tfr,$(VENV))
	touch $@

# With the package itself, so that its own requirements hold.
$(VENV)/.installed-%: $(VENV)/.installed
	$(PIP) install --quiet $(EDITABLE) $(patsubst %,-r %,$(filter %.txt,$^))
	touch $@

$(VENV)/.installed-docs: requirements/docs.txt
$(VENV)/.installed-examples: requirements/examples.txt requirements/gbm.txt
$(VENV)/.installed-gbm: requirements/gbm.txt
$(VENV)/.installed-dask: requirements/dask.txt
$(VENV)/.installed-test: $(NEEDED_BY_TESTS)
