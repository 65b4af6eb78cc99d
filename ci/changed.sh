#!/usr/bin/env bash
# The slow tests, and the tests away from the tree, of the members that changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

base=${OCTAVO_BASE:-}
if [ -z "$base" ]; then
  base=$(git log -1 --format=%H --before="@$(($(git log -1 --format=%ct) - 6 * 3600))")
fi
changed=()
if [ -n "$base" ]; then
  changed=(--changed "$base")
  echo "changed since $(git log -1 --format='%h %s' "$base")"
else
  echo "no commit to compare with: everything counts as changed"
fi

octavo test "${changed[@]}" -m "slow and not gpu" --timeout 1500
octavo test "${changed[@]}" --isolated
