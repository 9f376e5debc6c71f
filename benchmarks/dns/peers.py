"""Other servers with the same job, configured alike: three client zones, the region by the client's subnet."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

from benchmarks.dns.world import APEX

NAME = f"chat.eu.{APEX}"
ZONES = {"10.0.0.0/9": "DE", "10.128.0.0/10": "US", "10.192.0.0/10": "JP"}
ADDRESSES = {"DE": "192.0.2.1", "US": "192.0.2.2", "JP": "192.0.2.3"}


def gdnsd(folder: Path, port: int) -> list[str]:
    """gdnsd with its geoip plugin over a list of networks."""
    (folder / "zones").mkdir(parents=True)
    datacenters = " ".join(f"{cc} => {address}" for cc, address in ADDRESSES.items())
    names = ", ".join(ADDRESSES)
    nets = " ".join(f"{net} => [ {cc}, {names.replace(cc + ', ', '')} ]" for net, cc in ZONES.items())
    (folder / "config").write_text(
        f"""options => {{ listen => {{ 127.0.0.1:{port} => {{ udp_threads = 1 tcp_threads = 1 }} }}
  run_dir = {folder}/run state_dir = {folder}/state }}
plugins => {{ geoip => {{
  maps => {{ m => {{ datacenters => [ {names} ] nets => {{ {nets} }} }} }}
  resources => {{ chat => {{ map => m dcmap => {{ {datacenters} }} }} }}
}} }}
"""
    )
    (folder / "zones" / APEX).write_text(
        f"@ 3600 SOA ns1 hostmaster 1 7200 30M 3D 900\n@ NS ns1\nns1 A 192.0.2.53\n{NAME}. 20 DYNA geoip!chat\n"
    )
    for name in ("run", "state"):
        (folder / name).mkdir()
    return ["gdnsd", "-c", str(folder), "start"]


def powerdns(folder: Path, port: int) -> list[str]:
    """PowerDNS with its geoip backend over an mmdb file of the same networks."""
    folder.mkdir(parents=True)
    write_mmdb(folder / "zones.mmdb", ZONES)
    records = "".join(f"    {cc.lower()}.r.{APEX}:\n      - a: {address}\n" for cc, address in ADDRESSES.items())
    (folder / "zones.yaml").write_text(
        f"""domains:
- domain: {APEX}
  ttl: 20
  records:
    {APEX}:
      - soa: ns1.{APEX} hostmaster.{APEX} 1 7200 3600 1209600 10
      - ns: ns1.{APEX}
{records}  services:
    {NAME}: ["%cc.r.{APEX}"]
"""
    )
    (folder / "pdns.conf").write_text(
        f"""launch=geoip
geoip-database-files=mmdb:{folder}/zones.mmdb
geoip-zones-file={folder}/zones.yaml
local-address=127.0.0.1
local-port={port}
edns-subnet-processing=yes
receiver-threads=1
distributor-threads=1
socket-dir={folder}
zone-cache-refresh-interval=0
version-string=anonymous
loglevel=3
security-poll-suffix=
"""
    )
    return ["pdns_server", f"--config-dir={folder}", "--daemon=no", "--guardian=no"]


def knot(folder: Path, port: int) -> list[str]:
    """Knot with its geoip module in subnet mode."""
    folder.mkdir(parents=True)
    views = "".join(f"  - net: {net}\n    A: {ADDRESSES[cc]}\n" for net, cc in ZONES.items())
    (folder / "geo.conf").write_text(f"{NAME}.:\n{views}")
    (folder / f"{APEX}.zone").write_text(
        f"{APEX}. 3600 SOA ns1 hostmaster 1 7200 1800 259200 900\n"
        f"{APEX}. 3600 NS ns1.{APEX}.\nns1.{APEX}. 3600 A 192.0.2.53\n{NAME}. 20 A 192.0.2.1\n"
    )
    (folder / "knot.conf").write_text(
        f"""server:
  listen: 127.0.0.1@{port}
  rundir: {folder}
  udp-workers: 1
  tcp-workers: 1
  edns-client-subnet: on
database:
  storage: {folder}
mod-cookies:
  - id: default
mod-geoip:
  - id: chat
    config-file: {folder}/geo.conf
    ttl: 20
    mode: subnet
zone:
  - domain: {APEX}
    storage: {folder}
    module: [mod-cookies, mod-geoip/chat]
"""
    )
    return ["knotd", "-c", str(folder / "knot.conf")]


def write_mmdb(file: Path, zones: dict[str, str]) -> None:
    """The MaxMind DB format, as much as three networks need: a binary tree over IPv6, data, metadata."""
    data = bytearray()
    offsets: dict[str, int] = {}
    for cc in zones.values():
        offsets[cc] = len(data)
        data += _value({"country": {"iso_code": cc}})
    tree: list[list[int | str | None]] = [[None, None]]
    for net, cc in zones.items():
        address, _, bits = net.partition("/")
        path = "0" * 96 + format(int.from_bytes(socket.inet_aton(address), "big"), "032b")[: int(bits)]
        node = 0
        for bit in path[:-1]:
            child = tree[node][int(bit)]
            if not isinstance(child, int):
                tree.append([None, None])
                child = tree[node][int(bit)] = len(tree) - 1
            node = child
        tree[node][int(path[-1])] = cc
    raw = bytearray()
    for pair in tree:
        for child in pair:
            value = len(tree) if child is None else len(tree) + 16 + offsets[child] if isinstance(child, str) else child
            raw += value.to_bytes(4, "big")
    metadata = {
        "binary_format_major_version": 2,
        "binary_format_minor_version": 0,
        "build_epoch": 1,
        "database_type": "GeoLite2-Country",
        "description": {"en": "benchmark"},
        "ip_version": 6,
        "languages": {},
        "node_count": len(tree),
        "record_size": 32,
    }
    encoded = _value(metadata, {"languages": b"\x00\x04"})
    file.write_bytes(bytes(raw) + bytes(16) + bytes(data) + b"\xab\xcd\xefMaxMind.com" + encoded)


_UINT_TYPES = {"build_epoch": (9, 8), "node_count": (6, 4)}


def _value(value: object, raw: dict[str, bytes] | None = None, key: str = "") -> bytes:
    if isinstance(value, str):
        return bytes((0x40 | len(value),)) + value.encode()
    if isinstance(value, int):
        kind, size = _UINT_TYPES.get(key, (5, 2))
        body = value.to_bytes(size, "big")
        return (bytes((size, kind - 7)) if kind > 7 else bytes((kind << 5 | size,))) + body
    assert isinstance(value, dict)
    out = struct.pack("B", 0xE0 | len(value))
    for name, item in value.items():
        out += _value(name) + ((raw or {}).get(name) or _value(item, raw, name))
    return out
