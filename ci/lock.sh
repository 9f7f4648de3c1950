#!/usr/bin/env bash
# Write ci/requirements.txt: the newest versions that kgen and ci/requirements.in allow, with all they need.
set -euo pipefail
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
.venv/bin/python -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --editable . --requirement ci/requirements.in
"$scratch/venv/bin/python" -m pip freeze --exclude-editable >"$scratch/requirements.txt"
mv "$scratch/requirements.txt" ci/requirements.txt
rm -f .venv/.installed
