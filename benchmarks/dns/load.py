"""A DNS load with a client subnet that varies: 20,000 random /24, in batches of one system call each way.

    python -m benchmarks.dns.load PORT --pid PID [--seconds 5] [--rate QPS] [--sockets 1]

Without a rate it keeps a window of queries in flight (saturation); with one it sends at that pace and reports latency.
Prints a JSON line. Every query carries EDNS, a client subnet, and the cookie that the server gave, if it gave one.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import select
import socket
import struct
import time
from array import array
from pathlib import Path

SUBNETS = 20_000
BATCH = 64
WINDOW = 512
"""Queries in flight, all sockets together."""
RECEIVE_BYTES = 1280
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def query(id_: int, name: str, subnet: bytes, cookie: bytes, *, nsid: bool = False) -> bytes:
    qname = b"".join(bytes((len(label),)) + label.encode() for label in name.split(".")) + b"\0"
    options = struct.pack("!HH", 8, 7) + b"\0\1\x18\0" + subnet
    if cookie:
        options += struct.pack("!HH", 10, len(cookie)) + cookie
    if nsid:
        options += struct.pack("!HH", 3, 0)
    opt = b"\0" + struct.pack("!HHIH", 41, 1232, 0, len(options)) + options
    return struct.pack("!6H", id_, 0, 1, 0, 0, 1) + qname + b"\0\1\0\1" + opt


def server_cookie(port: int, name: str) -> bytes:
    """The whole cookie that the server gives; b"" where it has none. Raises AssertionError unless it then answers."""
    cookie = b"12345678"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(3)
        for _ in range(2):
            sock.sendto(query(1, name, b"\x0a\0\0", cookie), ("127.0.0.1", port))
            wire = sock.recv(2048)
            at = wire.find(struct.pack("!HH", 10, 24) + b"12345678")
            cookie = wire[at + 4 : at + 28] if at > 0 else cookie
    assert wire[7] >= 1, "no answer record"
    return cookie if len(cookie) == 24 else b""


class Messages:
    """struct mmsghdr, many, over one buffer; contiguous runs of it go to the kernel as they are."""

    def __init__(self, packets: list[bytes] | int) -> None:
        sizes = [len(p) for p in packets] if isinstance(packets, list) else [RECEIVE_BYTES] * packets
        self.buffer = bytearray(b"".join(packets) if isinstance(packets, list) else sum(sizes))
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))
        self.iov = array("Q", [0]) * (2 * len(sizes))
        self.headers = array("Q", [0]) * (8 * len(sizes))
        iov_base = self.iov.buffer_info()[0]
        for i, size in enumerate(sizes):
            self.iov[2 * i], self.iov[2 * i + 1] = base, size
            self.headers[8 * i + 2], self.headers[8 * i + 3] = iov_base + 16 * i, 1
            base += size
        self.base = self.headers.buffer_info()[0]

    def at(self, i: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.base + 64 * i)


LIBC = ctypes.CDLL(None, use_errno=True)
for call, extra in ((LIBC.recvmmsg, [ctypes.c_void_p]), (LIBC.sendmmsg, [])):
    call.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, *extra]


class Lane:
    """One socket, its queries, and a place in them."""

    def __init__(self, port: int, packets: list[bytes], start: int) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.sock.connect(("127.0.0.1", port))
        self.fd = self.sock.fileno()
        self.out = Messages(packets)
        self.inbox = Messages(BATCH)
        self.count = len(packets)
        self.next = start % self.count
        self.sent_s = array("d", [0.0]) * self.count

    def send(self, wanted: int, now_s: float = 0.0) -> int:
        """Send up to `wanted` queries; returns how many the kernel took."""
        n = min(wanted, BATCH, self.count - self.next)
        sent: int = LIBC.sendmmsg(self.fd, self.out.at(self.next), n, socket.MSG_DONTWAIT)
        sent = max(0, sent)
        if now_s:
            for i in range(self.next, self.next + sent):
                self.sent_s[i] = now_s
        self.next = (self.next + sent) % self.count
        return sent

    def receive(self) -> int:
        got: int = LIBC.recvmmsg(self.fd, self.inbox.at(0), BATCH, socket.MSG_DONTWAIT, None)
        return max(0, got)

    def ids(self, got: int) -> list[int]:
        buffer = self.inbox.buffer
        return [buffer[i * RECEIVE_BYTES] << 8 | buffer[i * RECEIVE_BYTES + 1] for i in range(got)]

    def right(self, got: int) -> int:
        """How many of them are NOERROR with an answer record."""
        buffer = self.inbox.buffer
        return sum(
            1 for at in range(0, got * RECEIVE_BYTES, RECEIVE_BYTES) if not buffer[at + 3] & 0xF and buffer[at + 7]
        )


def cpu_s(pids: list[int]) -> float:
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_S


def saturate(lanes: list[Lane], seconds: float) -> tuple[int, int, int]:
    """(answered, lost, wrong): the lanes share a window that is kept full.

    One lane is polled without a pause, by a load that has a core to itself; several leave the core while nothing comes.
    """
    window = max(1, WINDOW // len(lanes))
    ready = select.poll()
    for lane in lanes:
        ready.register(lane.fd, select.POLLIN)
    answered = lost = wrong = 0
    flying = [0] * len(lanes)
    heard_s = [time.monotonic()] * len(lanes)
    end_s = time.monotonic() + seconds
    while (now_s := time.monotonic()) < end_s:
        if len(lanes) > 1:
            ready.poll(1)
        for i, lane in enumerate(lanes):
            got = lane.receive()
            if got:
                answered += got
                wrong += got - lane.right(got)
                flying[i] -= got
                heard_s[i] = now_s
            elif now_s - heard_s[i] > 0.2 and flying[i] > 0:
                lost += flying[i]
                flying[i], heard_s[i] = 0, now_s
            if flying[i] < window:
                flying[i] += lane.send(window - flying[i])
    return answered, lost, wrong


def pace(lanes: list[Lane], seconds: float, rate: float) -> tuple[int, int, list[float]]:
    """(answered, lost, latencies): queries leave at a steady rate, a few at a time, from one lane after the other."""
    latencies: list[float] = []
    start_s = time.monotonic()
    sent = answered = turn = 0
    while (now_s := time.monotonic()) < start_s + seconds + 0.5:
        due = int((now_s - start_s) * rate) - sent if now_s < start_s + seconds else 0
        if due > 0:
            turn = (turn + 1) % len(lanes)
            sent += lanes[turn].send(min(due, 16), time.monotonic())
        for lane in lanes:
            got = lane.receive()
            if got:
                now_s = time.monotonic()
                latencies += [now_s - lane.sent_s[i] for i in lane.ids(got)]
                answered += got
    return answered, sent - answered, latencies


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--pid", type=int, action="append", required=True)
    parser.add_argument("--name", default="chat.eu.infer.example.com")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("--sockets", type=int, default=1)
    parser.add_argument("--no-cookie", action="store_true")
    parser.add_argument("--missing", action="store_true", help="as many names that do not exist, one for each subnet")
    options = parser.parse_args()
    rng = random.Random(7)
    cookie = b"" if options.no_cookie else server_cookie(options.port, options.name)
    names = [f"x{i}.{options.name}" if options.missing else options.name for i in range(SUBNETS)]
    packets = [query(i, name, b"\x0a" + rng.randbytes(2), cookie) for i, name in enumerate(names)]
    lanes = [Lane(options.port, packets, i * SUBNETS // options.sockets) for i in range(options.sockets)]
    saturate(lanes, 1.0)  # Everyone has been asked once before anything is measured.
    time.sleep(0.3)
    for lane in lanes:
        while lane.receive():
            pass
    before_s, started_s = cpu_s(options.pid), time.monotonic()
    result: dict[str, float | int | bool] = {"cookie": bool(cookie)}
    if options.rate:
        answered, lost, latencies = pace(lanes, options.seconds, options.rate)
        latencies.sort()
        result |= {f"p{q}_ms": round(latencies[int(len(latencies) * q / 100.0)] * 1000, 3) for q in (50, 99)}
        result["p99.9_ms"] = round(latencies[int(len(latencies) * 0.999)] * 1000, 3)
    else:
        answered, lost, wrong = saturate(lanes, options.seconds)
        result["wrong"] = 0 if options.missing else wrong
    spent_s = cpu_s(options.pid) - before_s
    elapsed_s = time.monotonic() - started_s
    result |= {
        "answered": answered,
        "lost": lost,
        "per_s": round(answered / elapsed_s),
        "cpu_s": round(spent_s, 2),
        "per_cpu_s": round(answered / spent_s) if spent_s else 0,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
