#!/usr/bin/env bash
# On a machine with GPUs, network or not: build the generated projects, check and time them, print one table.
# Usage: ci/gpu.sh [quick|full] [--projects DIR] [--only PREFIX,...]; results and logs go to $OUT or out/results.
set -euo pipefail
cd "$(dirname "$0")/.."
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
exec python3 tests/gpu/run.py "$@"
