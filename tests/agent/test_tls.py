"""TLS with an authority of one's own, and a client certificate where a server asks for one."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from pathlib import Path

import pytest

from director.agent.config import DirectorEndpoint, Tls
from director.agent.fetch import Clients
from director.agent.report import ReportBuilder
from director.agent.send import Answer, put_report


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and one certificate that serves as server's and client's."""
    folder = tmp_path_factory.mktemp("tls")
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    authority = ("-x509", *new_key, "-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca.pem", "-subj", "/CN=test CA")
    openssl("req", *authority, "-days", "2", "-addext", "keyUsage=critical,keyCertSign")
    (folder / "extensions").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("req", *new_key, "-keyout", f"{folder}/end.key", "-out", f"{folder}/end.csr", "-subj", "/CN=localhost")
    signing = ("-CA", f"{folder}/ca.pem", "-CAkey", f"{folder}/ca.key", "-CAcreateserial", "-days", "2")
    out = ("-out", f"{folder}/end.pem", "-extfile", f"{folder}/extensions")
    openssl("x509", "-req", "-in", f"{folder}/end.csr", *signing, *out)
    return folder


async def report_over_tls(certificates: Path, tls: Tls | None) -> Answer:
    """To a director that accepts only clients of the test's authority."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates / "ca.pem"))
    context.load_cert_chain(certificates / "end.pem", certificates / "end.key")
    context.verify_mode = ssl.CERT_REQUIRED
    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    clients = Clients()
    try:
        director = DirectorEndpoint(url, token="t", tls=tls)
        return await put_report(clients.of(url, tls), director, "r", ReportBuilder(5.0).build([], "ok"))
    finally:
        await clients.close()
        server.close()


@pytest.mark.system
async def test_a_director_with_a_private_authority_that_asks_for_a_client_certificate(certificates: Path) -> None:
    """With both it is trusted and trusts; without either the report is not sent to a stranger."""
    authority, own = str(certificates / "ca.pem"), (str(certificates / "end.pem"), str(certificates / "end.key"))
    assert (await report_over_tls(certificates, Tls(authority, *own))).accepted
    stranger = await report_over_tls(certificates, None)
    assert not stranger.accepted
    assert "CERTIFICATE_VERIFY_FAILED" in stranger.what
    assert not (await report_over_tls(certificates, Tls(authority))).accepted
