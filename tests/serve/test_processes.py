"""What tests of real processes stand on: ports that stay free, and failures that say why."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.serve.processes import KERNELS_PORTS, director, free_port, wait_for_answer


def test_a_free_port_is_not_one_that_the_next_connection_may_get() -> None:
    """An outgoing connection takes a port of the kernel's range, and keeps it from being listened on for a minute."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getsockname()[1] in KERNELS_PORTS
    given = {free_port() for _ in range(50)}
    assert not any(port in KERNELS_PORTS for port in given)
    assert len(given) > 45


def test_a_director_that_ends_is_not_waited_for(tmp_path: Path) -> None:
    """A port that was taken in the meantime is read in the failure, not guessed at after a minute and a half."""
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        arguments = ["serve", "--http-port", str(taken.getsockname()[1]), "--data", str(tmp_path / "data")]
        with (
            director(arguments, tmp_path / "serve.log") as running,
            pytest.raises(AssertionError, match=r"(?s)it ended with code 2; its log: .*port \d+ on .* is taken"),
        ):
            wait_for_answer(running, lambda: None)
