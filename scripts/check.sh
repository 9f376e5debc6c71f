#!/usr/bin/env bash
# Format, lint, strict types, import contracts.
set -euo pipefail
bin=.venv/bin
"$bin/ruff" format --check -q . || { echo "check: run 'make format'" >&2; exit 1; }
"$bin/ruff" check -q .
"$bin/mypy"
"$bin/lint-imports" --no-cache 2>&1 | tail -n 8
