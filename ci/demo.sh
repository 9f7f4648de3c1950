#!/usr/bin/env bash
# From specs/models/smollm2-135m.yaml to an answer: generate, build, pack, run.
set -euo pipefail
cd "$(dirname "$0")/.."

project=build/smollm2-135m
weights=.cache/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
question=${1:-What is the capital of France?}
PATH=$PWD/.venv/bin:$PATH

kgen generate specs/models/smollm2-135m.yaml --out "$project"
kgen build "$project"
kgen pack "$project" --weights "$weights"
echo "> $question"
kgen run "$project" --prompt "$question"
