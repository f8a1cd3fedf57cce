# Everything runs in a virtual environment of its own; the first command to need it makes it.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
PIP     = $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test test-long lint types docs bench clean

demo: $(VENV)/.demo
	$(BIN)/fans demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal -m "not long"

# What starts processes, kernels or browsers: packages elsewhere, `fans explain`, the explorer, examples, notebooks.
test-long: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal -m long

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

# The pages, into site/: open site/index.html. Warnings are errors; nothing is fetched.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.overhead
	$(BIN)/python -m benchmarks.ground_truth
	$(BIN)/python -m benchmarks.tables
	$(BIN)/python -m benchmarks.images
	$(BIN)/python -m benchmarks.metrics
	$(BIN)/python -m benchmarks.superpixels
	$(BIN)/python -m benchmarks.graphs
	$(BIN)/python -m benchmarks.graph_choices
	$(BIN)/python -m benchmarks.sanity
	$(BIN)/python -m benchmarks.text
	if command -v chromium >/dev/null; then $(BIN)/python -m benchmarks.serve; fi
	if [ -n "$$FANS_DATA" ]; then $(BIN)/python -m benchmarks.irof && $(BIN)/python -m benchmarks.choices && \
	  $(BIN)/python -m benchmarks.budget && $(BIN)/python -m benchmarks.subsets; fi

clean:
	rm -rf $(VENV) build src/*.egg-info fans-demo site

# The stamp comes last, so that what failed halfway, or was made by a Python too old, is made anew.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Expected Python 3.11 or later, got" \
	"$$($(PYTHON) --version); name one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	touch $@

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/.made
	$(PIP) install -q -c constraints.txt -e '.[tabular,plot,graph]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/.made
	$(PIP) install -q -c constraints.txt -e '.[dev]'
	$(PIP) install -q -c constraints.txt --no-deps quantus  # an oracle of tests; OpenCV, which it asks for, is not used
	touch $@ $(VENV)/.demo
