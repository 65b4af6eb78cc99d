#!/usr/bin/env bash
# Runs everything that needs a GPU, from a bare checkout: nothing is installed, the sources lie on PYTHONPATH.
# Needs Python with torch, triton, numpy, pytest, typer and rich. Takes the options of `octavo gpu`: ci/gpu.sh --out results
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export PYTHONPATH="$root/tools/src:$root/shared/src${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m octavo_tools gpu "$@"
