#!/usr/bin/env bash
# The programs of others that the tests run against. Installed on Debian as root, else named clearly.
set -euo pipefail
declare -A package=([promtool]=prometheus [dig]=bind9-dnsutils [kdig]=knot-dnsutils [unbound]=unbound [dnsdist]=dnsdist [dnsviz]=dnsviz [zonemaster-cli]=zonemaster-cli [chromium]=chromium [nginx]=nginx [haproxy]=haproxy)
missing=()
for program in "${!package[@]}"; do
  command -v "$program" >/dev/null || missing+=("${package[$program]}")
done
# NGINX's scripting is a file, not a program.
[ -e /usr/lib/nginx/modules/ngx_http_js_module.so ] || missing+=(libnginx-mod-http-js)
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "test: installing ${missing[*]}" >&2
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >/dev/null
else
  echo "test: missing programs; install with: apt-get install ${missing[*]}" >&2
  exit 1
fi
