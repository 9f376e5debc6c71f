"""UDP in batches: one system call reads many messages, one sends the answers (recvmmsg and sendmmsg by ctypes).

The kernel's work is most of what a DNS answer costs; Python's socket module asks for one message at a time. The arrays
that the two calls take are laid out once, and only lengths and addresses are written again. Elsewhere than on 64-bit
little-endian Linux the plain socket calls do the same job.
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
import sys
from array import array
from collections.abc import Callable
from itertools import accumulate
from typing import Final, Protocol

BATCH: Final = 64
QUERY_BYTES_MAX: Final = 2048
"""Longer UDP queries are cut by the kernel and dropped: one with every option we know is below 600."""
ANSWER_BYTES_MAX: Final = 1280
_ADDRESS_BYTES: Final = 32
_WORDS: Final = 8
"""A struct mmsghdr in 64-bit words: name, namelen, iov, iovlen, control, controllen, flags, msg_len."""
_MSG_TRUNC: Final = 0x20
_CONTROL_BYTES: Final = 64

_IP_PKTINFO: Final = 8
"""Linux's number; the socket module has no name for it."""

Fast = Callable[[bytes, bytes], bytes | None]
"""A message and its source (4 or 16 bytes) → the answer; None or b"": ask `Complete`."""
Complete = Callable[[bytes, bytes, bool], bytes | None]
"""The same, and whether `Fast` said b""; None: silence."""


class Datagrams(Protocol):
    def exchange(self, fast: Fast, complete: Complete) -> int:
        """Answer what waits in the socket, at most one batch; returns how many messages that was."""


def batched_calls_work() -> bool:
    return sys.platform == "linux" and sys.byteorder == "little" and struct.calcsize("P") == 8


def datagrams(sock: socket.socket) -> Datagrams:
    """The fastest way to serve a non-blocking, bound UDP socket on this machine."""
    return BatchedDatagrams(sock) if batched_calls_work() else PlainDatagrams(sock)


class PlainDatagrams:
    """One system call for each message; works everywhere."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def exchange(self, fast: Fast, complete: Complete) -> int:
        for count in range(BATCH):
            try:
                data, address = self._sock.recvfrom(QUERY_BYTES_MAX)
            except (BlockingIOError, InterruptedError):
                return count
            except OSError:
                # An earlier answer could not be delivered; the error is reported here and means nothing.
                continue
            source = packed_address(address[0])
            wire = fast(data, source)
            if not wire:
                wire = complete(data, source, wire is not None)
            if wire:
                try:
                    self._sock.sendto(wire, address)
                except OSError:
                    continue
        return BATCH


def packed_address(text: str) -> bytes:
    """4 or 16 bytes of an address in text, as the socket module gives it."""
    if ":" in text:
        return socket.inet_pton(socket.AF_INET6, text.partition("%")[0])
    return socket.inet_aton(text)


class _Messages:
    """An array of struct mmsghdr with one buffer each."""

    def __init__(self, buffer_bytes: int) -> None:
        self.buffer = bytearray(BATCH * buffer_bytes)
        self.view = memoryview(self.buffer)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))
        self.iov = array("Q", [0]) * (2 * BATCH)
        self.headers = array("Q", [0]) * (_WORDS * BATCH)
        for i in range(BATCH):
            self.iov[2 * i] = self.base + i * buffer_bytes
            self.iov[2 * i + 1] = buffer_bytes
            self.headers[_WORDS * i + 2] = self.iov.buffer_info()[0] + 16 * i
            self.headers[_WORDS * i + 3] = 1
        self.pointer = ctypes.c_void_p(self.headers.buffer_info()[0])


class BatchedDatagrams:
    """recvmmsg and sendmmsg. With `wildcard`, answers leave from the address that was asked (IP_PKTINFO)."""

    def __init__(self, sock: socket.socket) -> None:
        self._fd = sock.fileno()
        libc = ctypes.CDLL(None, use_errno=True)
        self._recvmmsg, self._sendmmsg = libc.recvmmsg, libc.sendmmsg
        self._recvmmsg.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p]
        self._sendmmsg.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int]
        self._in = _Messages(QUERY_BYTES_MAX)
        self._out = _Messages(ANSWER_BYTES_MAX)
        self._addresses = bytearray(BATCH * _ADDRESS_BYTES)
        self._address_view = memoryview(self._addresses)
        self._address_base = ctypes.addressof(ctypes.c_char.from_buffer(self._addresses))
        ipv4 = sock.family == socket.AF_INET
        self._address_bytes = 16 if ipv4 else 28
        # Where each message begins, and where its address stands in a sockaddr_in or sockaddr_in6.
        ip, ip_end = (4, 8) if ipv4 else (8, 24)
        self._slices = [
            (i * QUERY_BYTES_MAX, i * _ADDRESS_BYTES + ip, i * _ADDRESS_BYTES + ip_end) for i in range(BATCH)
        ]
        for i in range(BATCH):
            for messages in (self._in, self._out):
                messages.headers[_WORDS * i] = self._address_base + i * _ADDRESS_BYTES
                messages.headers[_WORDS * i + 1] = self._address_bytes
        # Slots of the out-array that carry another slot's address, until they are sent.
        self._moved: list[int] = []
        self._control = _wildcard_control(sock, self._in, self._out)

    def exchange(self, fast: Fast, complete: Complete) -> int:
        headers = self._in.headers
        if self._control is not None:
            self._control.rearm(headers)
        got: int = self._recvmmsg(self._fd, self._in.pointer, BATCH, socket.MSG_DONTWAIT, None)
        if got <= 0:
            return 0
        answers = self._answers(fast, complete, got)
        if answers:
            self._lay_out(answers)
            self._send(len(answers))
        if self._moved:
            for slot in self._moved:
                self._out.headers[_WORDS * slot] = self._address_base + slot * _ADDRESS_BYTES
            self._moved.clear()
        return got

    def _answers(self, fast: Fast, complete: Complete, got: int) -> list[bytes]:
        """Answer a batch. Sees to it that each answer's place in the out-array has its asker's address."""
        view = self._in.view
        lengths = self._in.headers[7 : _WORDS * got : _WORDS]
        flags = self._in.headers[6 : _WORDS * got : _WORDS]
        addresses = bytes(self._address_view[: got * _ADDRESS_BYTES])
        answers: list[bytes] = []
        for i, (length, flag, (start, ip, ip_end)) in enumerate(zip(lengths, flags, self._slices, strict=False)):
            if flag & _MSG_TRUNC:
                continue
            data = view[start : start + length].tobytes()
            source = addresses[ip:ip_end]
            wire = fast(data, source)
            if not wire:
                wire = complete(data, source, wire is not None)
                if not wire:
                    continue
            place = len(answers)
            if place != i:
                # Some query before this one got no answer.
                self._moved.append(place)
                self._out.headers[_WORDS * place] = self._address_base + i * _ADDRESS_BYTES
            if self._control is not None:
                self._control.reply(place, i)
            answers.append(wire)
        return answers

    def _lay_out(self, answers: list[bytes]) -> None:
        """Put the answers one behind the other into the out-buffer, and say where each begins and how long it is."""
        sizes = array("Q", map(len, answers))
        starts = array("Q", accumulate(sizes, initial=self._out.base))
        end = starts.pop() - self._out.base
        self._out.view[:end] = b"".join(answers)
        self._out.iov[0 : 2 * len(answers) : 2] = starts
        self._out.iov[1 : 2 * len(answers) : 2] = sizes

    def _send(self, to_send: int) -> None:
        done = 0
        base = self._out.headers.buffer_info()[0]
        while done < to_send:
            pointer = ctypes.c_void_p(base + done * _WORDS * 8)
            sent: int = self._sendmmsg(self._fd, pointer, to_send - done, socket.MSG_DONTWAIT)
            if sent > 0:
                done += sent
            elif ctypes.get_errno() in (errno.EAGAIN, errno.EINTR):
                # The send buffer is full: what is left is lost as on a full network, rather than everyone waiting.
                return
            else:
                done += 1


class _Control:
    """The control data of each message: which of our addresses was asked, to answer from it."""

    def __init__(self, incoming: _Messages, outgoing: _Messages) -> None:
        self._buffer = bytearray(BATCH * _CONTROL_BYTES)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))
        self._in, self._out = incoming.headers, outgoing.headers
        self._lengths = array("Q", [_CONTROL_BYTES])
        for i in range(BATCH):
            incoming.headers[_WORDS * i + 4] = self._base + i * _CONTROL_BYTES

    def rearm(self, headers: array[int]) -> None:
        for i in range(BATCH):
            headers[_WORDS * i + 5] = _CONTROL_BYTES

    def reply(self, to_send: int, i: int) -> None:
        """Send message `to_send` with what came with message `i`; the interface is the routing table's choice."""
        length = self._in[_WORDS * i + 5]
        self._out[_WORDS * to_send + 4] = self._base + i * _CONTROL_BYTES if length else 0
        self._out[_WORDS * to_send + 5] = length
        if length:
            # struct cmsghdr is 16 bytes; in_pktinfo begins with the interface, in6_pktinfo ends with it.
            level = struct.unpack_from("=i", self._buffer, i * _CONTROL_BYTES + 8)[0]
            struct.pack_into("=i", self._buffer, i * _CONTROL_BYTES + 16 + (0 if level == socket.IPPROTO_IP else 16), 0)


def _wildcard_control(sock: socket.socket, incoming: _Messages, outgoing: _Messages) -> _Control | None:
    """Control data where the socket is bound to every address of the machine; a bound one needs none."""
    if any(packed_address(sock.getsockname()[0])):
        return None
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    return _Control(incoming, outgoing)
