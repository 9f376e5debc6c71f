"""Whether our ports are free, asked before anything is started: a busy port is one line, not a tree that falls over."""

from __future__ import annotations

import errno
import socket

from director.serve.options import Options


class PortUnusable(Exception):
    """The message is the one line to print."""


def check(options: Options) -> None:
    """Raise PortUnusable for the first port that cannot be listened on."""
    _try(options.http_host, options.http_port, socket.SOCK_STREAM, "HTTP", "--http-port")
    _try(options.dns_host, options.dns_port, socket.SOCK_STREAM, "DNS over TCP", "--dns-port")
    _try(options.dns_host, options.dns_port, socket.SOCK_DGRAM, "DNS over UDP", "--dns-port")
    for port, role in ((options.dns_metrics_port, "dns"), (options.planner_metrics_port, "planner")):
        if port is not None:
            what = f"metrics of {role}"
            _try(options.metrics_host, port, socket.SOCK_STREAM, what, f"--{role}-metrics-port")


def _try(host: str, port: int, kind: socket.SocketKind, what: str, option: str) -> None:
    if port == 0:
        return
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=kind, flags=socket.AI_PASSIVE)[0]
    except socket.gaierror as error:
        raise PortUnusable(f"cannot listen on {host!r} for {what}: {error.strerror}") from error
    with socket.socket(family, kind) as tried:
        if kind == socket.SOCK_STREAM:
            # As the server does: connections that a former run left in TIME_WAIT do not count as busy.
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(address)
        except OSError as error:
            raise PortUnusable(_line(host, port, what, option, error)) from error


def _line(host: str, port: int, what: str, option: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is taken ({what}): stop what listens there, or choose another with {option}"
    if error.errno == errno.EACCES:
        return f"no permission for port {port} on {host} ({what}): choose one above 1023 with {option}"
    return f"cannot listen on {host} port {port} ({what}): {error.strerror}"
