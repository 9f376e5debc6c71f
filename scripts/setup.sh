#!/usr/bin/env bash
# Create the environment from the hash lock. Arguments: the Python to use, the folder of the venv.
set -euo pipefail
python=$1 venv=$2
say() { printf '%s\n' "$*" >&2; }
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null || {
  say "setup: needs Python 3.11, 3.12 or 3.13 as '$python' (choose another with: make PYTHON=python3.12 setup)"
  exit 1
}
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "setup: installing python3-venv"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv; } >/dev/null
  else
    say "setup: Python's venv module is missing; install it with: apt-get install python3-venv"
    exit 1
  fi
fi
rm -rf "$venv"
"$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/lock.txt
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
say "setup: ready in $venv"
