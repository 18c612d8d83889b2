#!/usr/bin/env bash
# Prints what CUDA kernels have to be compiled for to run here, with commas between: the kinds of this machine's NVIDIA cards, or nothing.
set -euo pipefail
command -v nvidia-smi > /dev/null || exit 0
nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | tr -d . | sed 's/^90$/90a/' | sort -nu | paste -sd, || true
