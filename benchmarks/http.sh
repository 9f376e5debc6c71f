#!/usr/bin/env bash
# Decisions per server-CPU-second: the fast protocol beside plain ASGI, a Litestar handler and NGINX, interleaved.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin
for program in wrk nginx; do
  command -v "$program" >/dev/null || { echo "benchmarks/http.sh: needs $program (apt-get install wrk nginx libnginx-mod-http-js nghttp2-client)" >&2; exit 2; }
done
exec .venv/bin/python benchmarks/http_compare.py "$@"
