#!/usr/bin/env bash
# Installs what the checks need: a C++ compiler and a browser where Debian's packages can be had, hatch, the environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

wanted=()
command -v c++ >/dev/null || wanted+=(g++)
command -v chromium >/dev/null || wanted+=(chromium)
if [ ${#wanted[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing ${wanted[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends "${wanted[@]}" >/dev/null
  else
    echo "without ${wanted[*]}: compiled kernels are not built without a compiler, and the browser tests skip"
  fi
fi

[ -x build/hatch/bin/hatch ] || {
  python3 -m venv build/hatch
  build/hatch/bin/pip install --quiet --disable-pip-version-check hatch
}
build/hatch/bin/hatch env create
