"""Running `director` commands in a test, and a stand-in for the director that they ask."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner, Result

from director.cli import main


def run(*arguments: str, **env: str) -> Result:
    names = ("DIRECTOR_URL", "DIRECTOR_TOKEN", "DIRECTOR_DATABASE_URL", "DIRECTOR_DATA")
    return CliRunner().invoke(main, list(arguments), env={**dict.fromkeys(names), **env}, prog_name="director")


Asked = tuple[str, str, str | None, Any]
"""Method, path, Authorization, body."""


class Stub:
    """A director's stand-in: answers everything with what the test set, and keeps what it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.body: Any = {}
        self.headers: dict[str, str] = {}
        self.asked: list[Asked] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                told = json.loads(self.rfile.read(length)) if length else None
                stub.asked.append((self.command, self.path, self.headers.get("Authorization"), told))
                body = json.dumps(stub.body).encode()
                self.send_response(stub.status)
                for name, value in {"Content-Length": str(len(body)), **stub.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = answer  # noqa: N815  (the names that http.server calls)

            def log_message(self, *_: Any) -> None:
                return

        self.listening = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.listening.server_address[1]}"


@pytest.fixture
def server() -> Iterator[Stub]:
    stub = Stub()
    thread = Thread(target=stub.listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield stub
    stub.listening.shutdown()
    thread.join()
    stub.listening.server_close()
