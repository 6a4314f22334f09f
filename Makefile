# The two commands are `make demo` and `make test`; both make .venv first where it is missing or out of date.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
LOCK := requirements.lock
PEERS := .venv-peers
# torch is installed first and exactly: an open range may fetch gigabytes of another build.
TORCH_LOCK := requirements-torch.lock
TOOLS := .venv-tools

.DEFAULT_GOAL := help
.PHONY: help venv demo paper honesty study bench bench-scale bench-sizes bench-robots bench-policy house results test test-slow test-cpus fuzz faults soak calibrate lint format docs build clean lock test-versions check-build notes audit

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(INSTALLED)  ## make .venv with the locked packages and this project, editable

$(INSTALLED): pyproject.toml $(LOCK) $(TORCH_LOCK)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --requirement $(TORCH_LOCK)
	$(BIN)/pip install --quiet --no-deps --require-hashes --requirement $(LOCK)
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

demo: $(INSTALLED)  ## the paper's experiments in a few minutes; open report/index.html
	$(BIN)/python -m paper reproduce --quick --out report

paper: $(INSTALLED)  ## the same with 20 seeds, an hour or two; can be interrupted and continued
	$(BIN)/python -m paper reproduce --out report-full

honesty: $(INSTALLED)  ## is the average ever worse than a plain GP? the bars, an hour or so; can be continued
	$(BIN)/python benchmarks/honesty.py --averaging stack restarts single --only step bumps
	$(BIN)/python benchmarks/honesty.py

study: $(INSTALLED)  ## sizes of a stack over data sets and rows, and kinds of members that it might have, a few hours; can be continued
	$(BIN)/python benchmarks/study.py
	$(BIN)/python benchmarks/study_many_rows.py
	$(BIN)/python benchmarks/further_members.py

bench: $(INSTALLED) $(PEERS)/.installed  ## speed and memory against other libraries; writes docs/benchmarks; wants an idle machine
	$(BIN)/python benchmarks/bench.py

# A peer that cannot be installed here is left out; the page then says so, with the reason.
$(PEERS)/.installed: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --no-deps --requirement $< || \
	for package in $$(grep -v '^#' $<); do $(PEERS)/bin/pip install --quiet --no-deps "$$package" || true; done
	touch $@

test: lint  ## lint, then all tests and doctests, on up to 4 cores
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal

test-slow: $(INSTALLED)  ## the tests that take half a minute or more each
	$(BIN)/python -m pytest -m slow --numprocesses auto --maxprocesses 4 --dist worksteal

test-cpus: $(INSTALLED)  ## the tests on every kind of CPU that this one can play, with 1 and 2 threads; CPUS="--cpu Haswell -- tests/test_train.py"
	$(BIN)/python tests/cpus.py $(CPUS)

# The programmes of tests/programmes look for failures as long as one lets them; each prints its seed, and for a failure the line that runs it again.
PROGRAMME := PYTHONPATH=tests $(BIN)/python -m programmes

fuzz: $(INSTALLED)  ## mutated files, nasty data, random configurations, calls in any order, for an hour; FUZZ=minutes
	$(PROGRAMME).fuzz --minutes $(or $(FUZZ),60)

faults: $(INSTALLED)  ## kill -9, full disk, no memory, signals, two writers, processes and threads, 50 of each; FAULTS=minutes, at most (60)
	$(PROGRAMME).faults --cases 50 --minutes $(or $(FAULTS),60)

soak: $(INSTALLED)  ## fit, update, predict, save, load and stream in one process: nothing grows; SOAK=minutes (30)
	$(PROGRAMME).soak --minutes $(or $(SOAK),30)

calibrate: $(INSTALLED)  ## coverage and PIT of stack, fast and nuts on data from known laws, ranks of NUTS; CALIBRATE=sets of each kind (400), a day or more; can be stopped and continued
	$(PROGRAMME).calibrate --sets $(or $(CALIBRATE),400)
	$(PROGRAMME).rank_statistics --sets $(or $(CALIBRATE),400)

lint: $(INSTALLED)  ## style, format, import layers, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/pyright

format: $(INSTALLED)  ## format the code and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(INSTALLED)  ## run the guides and tutorials, and make the documentation in site/; every warning is an error; DOCS="--publish DIR": into DIR/version too
	$(BIN)/python docs/make_site.py $(DOCS)

build: $(INSTALLED)  ## wheel and source archive in dist/
	$(BIN)/python -m build --no-isolation

results: $(INSTALLED)  ## run the commands of README and docs/command-line.md, and write there what they print now; some minutes
	$(BIN)/python benchmarks/results.py

bench-scale: $(INSTALLED)  ## the bars for many rows: time, memory, ranks, accuracy; three quarters of an hour on 2 idle cores
	$(BIN)/python benchmarks/scale.py

bench-sizes: $(INSTALLED) .venv-boosting/.installed  ## time and accuracy of the default from 500 to 36,000 rows beside boosting and GPyTorch, an hour or two; can be continued; SIZES="--tree DIR" puts another checkout beside
	$(BIN)/python benchmarks/sizes.py --plot docs/images/sizes.png $(SIZES)

.venv-boosting/.installed:
	$(BIN)/pip install --quiet --no-deps --target .venv-boosting catboost==1.2.10 six==1.17.0 || mkdir -p .venv-boosting
	touch $@

bench-robots: $(INSTALLED)  ## the bars of models on robots: moments at uncertain inputs, training with noisy ones, forecasts, rollouts of dynamics, one point in plain C against NumPy and Eigen, and in a page; half an hour; ROBOTS="c --realtime"
	$(BIN)/python benchmarks/robots_moments.py
	$(BIN)/python benchmarks/robots_noisy_inputs.py
	$(BIN)/python benchmarks/robots_forecasts.py
	$(BIN)/python benchmarks/robots.py $(ROBOTS)

bench-policy: $(INSTALLED)  ## policies from scratch in MuJoCo, ten seeds of two tasks, plain GP and learned features; an hour or two, can be continued; POLICY="--task juggle --seeds 3"
	$(BIN)/python benchmarks/robots_policy.py $(POLICY)

house: $(INSTALLED)  ## modules, lines, Any, files that a fit passes through and that a new part touches; HOUSE="--tree DIR" puts another checkout beside
	$(BIN)/python benchmarks/house.py $(HOUSE)

clean:  ## remove results, builds and caches; keeps .venv
	rm -rf build dist report report-full site .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src paper tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Tools for versions and releases have an environment of their own, as peers have.
$(TOOLS)/.installed: requirements-tools.lock
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --no-deps --require-hashes --requirement $<
	touch $@

lock: $(TOOLS)/.installed  ## resolve requirements.lock and requirements-tools.lock anew, with hashes; torch moves by hand in requirements-torch.lock
	$(TOOLS)/bin/python tests/versions.py lock

test-versions: $(TOOLS)/.installed  ## quick tests with the lowest and the newest versions of all packages, on Python 3.11 to 3.14; VERSIONS="--only lowest-3.11"
	$(TOOLS)/bin/python tests/versions.py test $(VERSIONS)

check-build: $(TOOLS)/.installed  ## what make build left in dist/: twine's checks, and the README's steps with the wheel alone on each Python
	$(TOOLS)/bin/twine check --strict dist/*
	$(TOOLS)/bin/python tests/versions.py wheel dist/*.whl

notes:  ## what CHANGELOG.md says of one version; VERSION=0.2.0
	@$(PYTHON) tests/versions.py notes $(VERSION)

# --strict: a package that the index knows nothing about is a failure, or "no known vulnerabilities" could mean that nothing was looked up.
audit: $(TOOLS)/.installed $(INSTALLED)  ## known vulnerabilities in the locked versions, and the licences of all packages
	$(TOOLS)/bin/pip-audit --strict --disable-pip --no-deps --requirement $(LOCK)
	$(TOOLS)/bin/pip-licenses --python $(BIN)/python --from=mixed --order=license --format=markdown
