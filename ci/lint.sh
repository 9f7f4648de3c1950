#!/usr/bin/env bash
# Style and types of everything written by hand; --fix rewrites what can be rewritten.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH

mapfile -t cpp < <(find templates tests -path tests/golden -prune -o \( -name '*.[hc]pp' -o -name '*.cu' -o -name '*.h' \) -print | sort)
if [ "${1:-}" = --fix ]; then
    ruff check --quiet --fix . || true  # what it cannot fix, `make lint` shows
    ruff format --quiet .
    clang-format -i --style=file:templates/project/.clang-format "${cpp[@]}"
    exit 0
fi
status=0
ruff check . || status=1
ruff format --check --quiet . || { echo "ruff format: make format puts it right" >&2; status=1; }
mypy || status=1
clang-format --dry-run --Werror --style=file:templates/project/.clang-format "${cpp[@]}" || status=1
exit $status
