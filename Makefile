# make demo   build a model, let it answer a prompt         make test     the whole CPU test suite
# make setup  .venv with kgen in it                         make lint     style and types
# make format rewrite what lint complains about             make lock     ci/requirements.txt anew
# make regenerate   generated/ and tests/golden/ anew, after a change of templates or passes
.DEFAULT_GOAL := help
.PHONY: help setup weights demo test lint format lock regenerate

BIN := .venv/bin
STAMP := .venv/.installed
TEST_WORKERS ?= 2

help:
	@sed -n 's/^# //p' Makefile | head -4

setup: $(STAMP)

$(STAMP): ci/setup.sh ci/requirements.txt pyproject.toml
	@ci/setup.sh

weights: $(STAMP)
	@ci/weights.sh

demo: weights
	@ci/demo.sh

# The tests run even if lint fails, and their summary comes last.
test: weights
	@lint=; ci/lint.sh || lint=failed; \
	$(BIN)/pytest -n $(TEST_WORKERS) --dist worksteal $(PYTEST_ARGS) || exit 1; \
	if [ -n "$$lint" ]; then echo "make test: the tests passed; lint did not, see above" >&2; exit 1; fi

lint: $(STAMP)
	@ci/lint.sh

format: $(STAMP)
	@ci/lint.sh --fix

lock: $(STAMP)
	@ci/lock.sh

regenerate: $(STAMP)
	@$(BIN)/python ci/regenerate.py
	@$(BIN)/pytest -q tests/render/test_golden.py --update-golden
