#!/usr/bin/env bash
# Every benchmark, one after the other, on a machine that does nothing else. Figures of a run are in figures.md.
set -uo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH=.
failed=0
run() {
  printf '\n== %s\n' "$*"
  "$@" || { echo "benchmark failed: $*" >&2; failed=1; }
}
# What http.sh and l7.sh ask for; dns.sh installs its own peers.
programs=(wrk nginx libnginx-mod-http-js haproxy nghttp2-client)
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! dpkg -s "${programs[@]}" >/dev/null 2>&1; then
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${programs[@]}"; } >/dev/null
fi
run .venv/bin/python benchmarks/core.py
run .venv/bin/python benchmarks/memory.py
run .venv/bin/python benchmarks/agent_scrape.py
run bash benchmarks/http.sh
run bash benchmarks/dns.sh
run bash benchmarks/l7.sh
exit $failed
