#!/usr/bin/env bash
# Format and lint, over everything.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ruff format --check .
ruff check .
