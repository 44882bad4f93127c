#!/usr/bin/env bash
# One check of the GPU path, under five minutes where a GPU is at hand: numbers equal to the CPU's, texts and training
# tokens a second, no wait for the device while masks are drawn. Run from the project's root, in an environment that has
# torch with CUDA and the project installed; without a GPU it says so and ends with 0.
#
#   bash benchmarks/gpu_check.sh [FOLDER for the report; out/gpu unless given]
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-out/gpu}
mkdir -p "$out"
PYTHONPATH=src${PYTHONPATH:+:$PYTHONPATH} python -m benchmarks.gpu --device "${DEVICE:-cuda}" -o "$out/gpu.md"
