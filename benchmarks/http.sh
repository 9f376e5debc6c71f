#!/usr/bin/env bash
# Decisions per server-CPU-second: the fast protocol beside plain ASGI and a Litestar handler, interleaved.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v wrk >/dev/null || { echo "benchmarks/http.sh: needs wrk (apt-get install wrk)" >&2; exit 2; }
exec .venv/bin/python benchmarks/http_compare.py "$@"
