#!/usr/bin/env bash
# What asking the director adds to a request, by proxy and with and without its cache; interleaved in one run.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in wrk nginx haproxy; do
  command -v "$program" >/dev/null || { echo "benchmarks/l7.sh: needs $program (apt-get install wrk nginx libnginx-mod-http-js haproxy)" >&2; exit 2; }
done
exec .venv/bin/python -m benchmarks.l7 "$@"
