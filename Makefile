# Two commands do everything on a fresh machine with Python 3.11 and pip: `make demo` and `make test`.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check lint types architecture specs pages coverage bench bench-huge bench-forests bench-engine fuzz corpus clean

demo: $(STAMP)
	$(BIN)/python tools/demo.py

test: $(STAMP) check
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=20

check: lint types architecture specs pages

lint: $(STAMP)
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

architecture: $(STAMP)
	$(BIN)/lint-imports

specs: $(STAMP)
	$(BIN)/python -m tools.sync_opsets --check

pages: $(STAMP)
	$(BIN)/onnx2mlir coverage --check

coverage: $(STAMP)
	$(BIN)/python -m tools.measure_coverage

fuzz: $(STAMP)
	$(BIN)/python -m tools.fuzz_ops --draws 50 --reproducers out/fuzz --json out/fuzz.json

corpus: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[corpus]'
	$(BIN)/python -m tools.corpus --json out/corpus.json

bench: $(STAMP)
	$(BIN)/python tools/bench/import_speed.py

bench-huge: $(STAMP)
	$(BIN)/python tools/bench/huge_weights.py

bench-forests: $(STAMP)
	$(BIN)/python tools/bench/forests.py

bench-engine: $(STAMP)
	$(BIN)/python tools/bench/engine.py --json out/engine.json

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info out
