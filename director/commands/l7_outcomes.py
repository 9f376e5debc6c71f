"""How requests ended, from a proxy's access log to `POST /outcomes`.

A proxy logs a request once, when it is over, so that nothing unfinished is ever counted and nothing is counted twice.
The lines come as datagrams (NGINX and HAProxy log to a socket without waiting for it) or on standard input, each with
one JSON object: `regions`, `versions` and `statuses` of the tries in order, and the times of each. They are added up
by region, model, version and class, and sent each second in a batch that counts once however often it is sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

Class = Literal["ok", "server", "timeout", "connect", "throttled", "client"]
Place = tuple[str, str, str, Class]
"""Region, model, version, class."""
PLACES_MAX = 10_000
"""What one batch may hold."""
RETRY_AFTER_S_MAX = 3_600.0

_BETWEEN_REGIONS = re.compile(r"\s+:\s+|\s*;\s*")
_BETWEEN_SERVERS = re.compile(r"\s*,\s*")
UNKNOWN = ("", "-", "-1", "<NOSRV>")


class LogLine(Struct, frozen=True):
    """One request as the shipped configurations log it: one entry a region that was tried, separated by " : " or ";".

    Within an entry, servers of the region are separated by commas (NGINX writes them so), and the last one counts.
    """

    model: str = ""
    regions: str = ""
    versions: str = ""
    statuses: str = ""
    connected: str = ""
    """Seconds to a connection, of each try; `-` where there was none."""
    answered: str = ""
    """Seconds to the response's header, of each try; `-` where none came."""
    connected_ms: str = ""
    """The same in milliseconds, -1 for none: HAProxy counts so."""
    answered_ms: str = ""
    retry_after: str = ""
    picked: str = ""
    """Where a proxy tells the last try alone (HAProxy): the region of the first, which refused if it is another one."""
    retried: str = "0"
    """How often HAProxy tried again, `+` before it where that was elsewhere; 0 too where it knew before trying."""
    state: str = ""
    """HAProxy's termination state. SD: the region ended the response before its end, which NGINX cannot tell from a
    client that left."""


class Seen(Struct):
    """What came together for one place since the last batch."""

    count: int = 0
    ttft_ms_sum: float = 0.0
    ttft_ms_count: int = 0
    retry_after_s: float | None = None


_decode = msgspec.json.Decoder(LogLine, strict=False).decode


def read_line(line: bytes) -> LogLine | None:
    """The JSON object of a line, behind whatever a logger wrote before it; None for any other line."""
    start = line.find(b"{")
    if start < 0:
        return None
    try:
        return _decode(line[start : line.rfind(b"}") + 1])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def class_of(status: int, connected: bool, answered: bool) -> Class | None:
    """What one try was. None: nothing that speaks for or against a region (a client that left before an answer).

    Answers of the proxy itself (502, 504 without a header from the region) are told apart by how far the try came.
    """
    if not answered and status in (502, 503, 504):
        if not connected:
            return "connect"
        return "timeout" if status == 504 else "server"
    if status in (429, 503):
        return "throttled"
    if status == 504:
        return "timeout"
    if status >= 500:
        return "server"
    if status == 499 or status < 200:
        return None
    return "client" if status >= 400 else "ok"


class Tally:
    """Counts between two batches. Bounded: places beyond `PLACES_MAX` are dropped, and counted."""

    def __init__(self) -> None:
        self._seen: dict[Place, Seen] = {}
        self.lines = 0
        self.unreadable = 0
        self.dropped = 0

    def add(self, line: bytes) -> None:
        """Take in one log line. Never raises."""
        read = read_line(line)
        if read is None:
            self.unreadable += bool(line.strip())
            return
        self.lines += 1
        self._add(read)

    def _add(self, read: LogLine) -> None:
        regions, versions, statuses = _split(read.regions), _split(read.versions), _split(read.statuses)
        elsewhere = read.picked not in UNKNOWN and regions != [read.picked] and read.retried != "0"
        if elsewhere and _at(versions, 0) not in UNKNOWN:
            self._count((read.picked, read.model, versions[0], "connect"), None, None)
        connected, answered = _split(read.connected or read.connected_ms), _split(read.answered or read.answered_ms)
        per_s = 1.0 if read.answered else 1000.0
        for i, (region, status) in enumerate(zip(regions, statuses, strict=False)):
            version = _at(versions, i)
            if region in UNKNOWN or version in UNKNOWN or not status.isdigit() or not read.model:
                continue  # a fallback while the director was silent has no version: nobody to tell, either
            header_s = _at(answered, i)
            outcome = class_of(int(status), _at(connected, i) not in UNKNOWN, header_s not in UNKNOWN)
            last = i == len(statuses) - 1
            if outcome == "ok" and read.state == "SD" and last:
                outcome = "server"
            if outcome is not None:
                wait_s = _seconds(read.retry_after) if last and outcome in ("throttled", "server") else None
                header = _seconds(header_s)
                ttft_s = header / per_s if header is not None else None
                self._count((region, read.model, version, outcome), ttft_s, wait_s)

    def _count(self, place: Place, ttft_s: float | None, retry_after_s: float | None) -> None:
        seen = self._seen.get(place)
        if seen is None:
            if len(self._seen) >= PLACES_MAX:
                self.dropped += 1
                return
            seen = self._seen[place] = Seen()
        seen.count += 1
        if ttft_s is not None and place[3] == "ok":
            seen.ttft_ms_sum += ttft_s * 1000
            seen.ttft_ms_count += 1
        if retry_after_s is not None:
            seen.retry_after_s = max(seen.retry_after_s or 0.0, min(retry_after_s, RETRY_AFTER_S_MAX))

    def take(self) -> list[dict[str, Any]]:
        """What came together, in the form of `POST /outcomes`; the tally begins anew."""
        seen, self._seen = self._seen, {}
        return [_outcome(place, one) for place, one in sorted(seen.items())]


def _outcome(place: Place, seen: Seen) -> dict[str, Any]:
    region, model, version, outcome = place
    told: dict[str, Any] = {
        "region": region,
        "model": model,
        "version": version,
        "class": outcome,
        "count": seen.count,
    }
    if seen.ttft_ms_count:
        told["ttft_ms"] = round(seen.ttft_ms_sum / seen.ttft_ms_count, 1)
    if seen.retry_after_s is not None:
        told["retry_after_s"] = seen.retry_after_s
    return told


def total(outcomes: list[dict[str, Any]]) -> Mapping[str, int]:
    """Requests by class, for the log."""
    found: dict[str, int] = {}
    for one in outcomes:
        found[one["class"]] = found.get(one["class"], 0) + one["count"]
    return found


def _split(text: str) -> list[str]:
    return [_BETWEEN_SERVERS.split(part)[-1] for part in _BETWEEN_REGIONS.split(text.strip()) if part]


def _at(parts: list[str], i: int) -> str:
    return parts[i] if i < len(parts) else ""


def _seconds(text: str) -> float | None:
    """A number of seconds; None for anything else (`Retry-After` may be a date, which a proxy's clock cannot judge)."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 <= found < float("inf") else None
