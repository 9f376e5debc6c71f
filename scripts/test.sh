#!/usr/bin/env bash
# Every test, fast ones first. System programs that tests need are installed here where that is possible.
set -euo pipefail
bash scripts/system-packages.sh
bash scripts/check.sh
exec .venv/bin/python -m pytest "$@"
