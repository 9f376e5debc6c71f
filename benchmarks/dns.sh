#!/usr/bin/env bash
# DNS answers per server-CPU-second beside gdnsd, Knot and PowerDNS geoip, latency at half the rate; then two workers.
set -euo pipefail
cd "$(dirname "$0")/.."
missing=()
command -v gdnsd >/dev/null || missing+=(gdnsd)
command -v pdns_server >/dev/null || missing+=(pdns-server pdns-backend-geoip)
command -v knotd >/dev/null || missing+=(knot knot-module-geoip)
command -v dnsperf >/dev/null || missing+=(dnsperf)
if [ ${#missing[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "benchmarks/dns.sh: installing ${missing[*]}" >&2
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >/dev/null
fi
status=0
.venv/bin/python -m benchmarks.dns.compare "$@" || status=$?
favour=()
[[ " $* " == *" --favour "* ]] && favour=(--favour)
.venv/bin/python -m benchmarks.dns.scaling "${favour[@]}" || status=$?
exit "$status"
