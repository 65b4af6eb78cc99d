#!/usr/bin/env bash
# Types, over the sources of every member.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sources=(shared/src tools/src packages/*/src)
# An editable installation may be an import hook, which mypy does not follow: it is told where the sources are.
MYPYPATH=$(IFS=:; echo "${sources[*]}")
export MYPYPATH
mypy --explicit-package-bases "${sources[@]}"
