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
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! command -v wrk >/dev/null; then
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends wrk; } >/dev/null
fi
run .venv/bin/python benchmarks/core.py
run .venv/bin/python benchmarks/memory.py
run .venv/bin/python benchmarks/agent_scrape.py
run bash benchmarks/http.sh
run bash benchmarks/dns.sh
run bash benchmarks/l7.sh
exit $failed
