"""The embedded server: starts anywhere, survives kills, keeps its data, leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from director.store import migrate, tokens
from director.store.database import Database, DatabaseUnavailable
from director.store.embedded import SOCKET_PATH_BYTES_MAX, EmbeddedPostgres
from director.store.errors import EmbeddedPostgresFailed
from tests.store.builders import until

pytestmark = pytest.mark.postgres

FAST = {"fsync": "off"}


def processes_of(folder: Path) -> list[psutil.Process]:
    """Every server and watchdog of a data folder, by command line."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = " ".join(process.info["cmdline"] or ())
        if str(folder) in words and process.info["status"] != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
            found.append(process)
    return found


async def ask(url: str) -> int:
    database = Database(url, pool_size=1)
    try:
        return await database.now_ms()
    finally:
        await database.close()


@pytest.fixture
def server(tmp_path):
    made = EmbeddedPostgres(tmp_path / "data", settings=FAST)
    yield made
    made.stop()


def test_it_starts_in_a_fresh_folder_and_answers_on_a_socket_alone(server, tmp_path):
    """No TCP port is opened, and nobody else may enter its folders."""
    url = server.start()
    assert asyncio.run(ask(url)) > 0
    listening = [c for c in psutil.Process(server.pid).net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert listening == []
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0
    assert server.socket_dir.stat().st_mode & 0o077 == 0
    assert tmp_path.stat().st_uid == os.geteuid()


def test_it_does_not_run_as_root(server):
    """Inside its namespace, or as another user, the server has no power over the machine."""
    server.start()
    status = Path(f"/proc/{server.pid}/status").read_text()
    capabilities = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff"))
    assert int(capabilities, 16) == 0


def test_a_second_start_keeps_the_data(server):
    """What was stored before the stop is there after the next start."""
    url = server.start()
    migrate.upgrade(url)

    async def make_token() -> None:
        database = Database(url)
        await tokens.create(database, "kept", ["read"])
        await database.close()

    async def names() -> list[str]:
        database = Database(url)
        found = [record.name for record in await tokens.all_hashes(database)]
        await database.close()
        return found

    asyncio.run(make_token())
    server.stop()
    assert server.start() == url
    assert asyncio.run(names()) == ["kept"]


def test_nothing_is_left_after_a_stop(server):
    """No process, no lock that stands in the way of another start; stopping twice is fine."""
    server.start()
    assert processes_of(server.data_dir)
    server.stop()
    server.stop()
    assert processes_of(server.data_dir) == []
    again = EmbeddedPostgres(server.data_dir, settings=FAST)
    again.start()
    again.stop()


def test_starting_twice_is_one_server(server):
    """The second call finds it running."""
    assert server.start() == server.start()
    assert len([p for p in processes_of(server.data_dir) if p.name() == "postgres" and p.ppid() == os.getpid()]) == 1


def test_a_folder_in_use_is_refused_in_words(server):
    """A second owner learns who has it, and the first goes on undisturbed."""
    url = server.start()
    with pytest.raises(EmbeddedPostgresFailed, match=f"in use by process {os.getpid()}"):
        EmbeddedPostgres(server.data_dir).start()
    assert asyncio.run(ask(url)) > 0


async def test_it_is_started_again_when_it_is_killed(server):
    """kill -9 of the server: the supervisor brings it back on the same URL, again and again."""
    url = server.start()
    supervising = asyncio.create_task(server.supervise())
    try:
        for _ in range(2):
            killed = server.pid
            os.kill(killed, signal.SIGKILL)

            async def is_back(killed: int = killed) -> bool:
                try:
                    return server.pid not in (None, killed) and await ask(url) > 0
                except DatabaseUnavailable:
                    return False

            await until(is_back)
    finally:
        supervising.cancel()
    assert not supervising.done() or supervising.cancelled()


async def test_a_stop_ends_the_supervision(server):
    """Stopped on purpose, it is not started again."""
    server.start()
    supervising = asyncio.create_task(server.supervise())
    await asyncio.to_thread(server.stop)
    await asyncio.wait_for(supervising, 10)
    assert processes_of(server.data_dir) == []


OWNER = """
import sys, time
from pathlib import Path
from director.store.embedded import EmbeddedPostgres
print(EmbeddedPostgres(Path(sys.argv[1]), settings={"fsync": "off"}).start(), flush=True)
time.sleep(600)
"""


def owner_of(folder: Path) -> subprocess.Popen[str]:
    """Another process that owns a server on the folder and was seen to have it running."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline().startswith("postgresql://")
    return owner


def gone(folder: Path, deadline_s: float = 15.0) -> bool:
    end_s = time.monotonic() + deadline_s
    while processes_of(folder):
        if time.monotonic() > end_s:
            return False
        time.sleep(0.02)
    return True


def test_a_killed_owner_leaves_no_server(tmp_path):
    """SIGKILL of the process that started it: server and watchdog end by themselves."""
    folder = tmp_path / "data"
    owner = owner_of(folder)
    owner.kill()
    owner.communicate()
    assert gone(folder)
    with EmbeddedRun(folder) as url:
        assert asyncio.run(ask(url)) > 0


def test_a_server_without_owner_and_watchdog_is_taken_over(tmp_path):
    """Even when the watchdog was killed first: the next start stops the old server, and keeps the data."""
    folder = tmp_path / "data"
    owner = owner_of(folder)
    for process in processes_of(folder):
        if process.name() == "sh":
            process.kill()
    owner.kill()
    owner.communicate()
    left = [process for process in processes_of(folder) if process.name() == "postgres"]
    assert left
    with EmbeddedRun(folder) as url:
        assert asyncio.run(ask(url)) > 0
        assert not {process.pid for process in left} & {process.pid for process in processes_of(folder)}
    assert gone(folder)


def test_a_stale_pid_that_belongs_to_another_program_does_not_stand_in_the_way(tmp_path):
    """After a crash the number in postmaster.pid may have passed to anybody; who has it now is left alone."""
    folder = tmp_path / "data"
    with EmbeddedRun(folder) as url:
        asyncio.run(ask(url))
        lines = (folder / "cluster" / "postmaster.pid").read_text().splitlines()
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        (folder / "cluster" / "postmaster.pid").write_text("\n".join([str(bystander.pid), *lines[1:]]) + "\n")
        with EmbeddedRun(folder) as url:
            assert asyncio.run(ask(url)) > 0
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_deep_or_odd_folder_gets_its_socket_elsewhere(tmp_path):
    """A path too long for a socket, with blanks and quotes in it, works, and its socket folder goes with the stop."""
    folder = tmp_path / ("deep " * 20).strip() / "it's, 100% odd"
    server = EmbeddedPostgres(folder, settings=FAST)
    assert len(os.fsencode(server.socket_dir)) < SOCKET_PATH_BYTES_MAX
    assert not server.socket_dir.is_relative_to(folder)
    try:
        assert asyncio.run(ask(server.start())) > 0
        assert server.socket_dir.stat().st_mode & 0o077 == 0
    finally:
        server.stop()
    assert not server.socket_dir.exists()


def test_an_interrupted_initialisation_is_begun_anew(tmp_path):
    """A half-made cluster is never mistaken for a whole one."""
    folder = tmp_path / "data"
    (folder / "cluster.partial" / "base").mkdir(parents=True)
    (folder / "cluster.partial" / "PG_VERSION").write_text("18\n")
    with EmbeddedRun(folder) as url:
        assert asyncio.run(ask(url)) > 0


def test_data_of_another_major_version_is_refused_in_words(tmp_path):
    """The message says which, and what to do."""
    folder = tmp_path / "data"
    (folder / "cluster").mkdir(parents=True)
    (folder / "cluster" / "PG_VERSION").write_text("14\n")
    with pytest.raises(EmbeddedPostgresFailed, match="PostgreSQL 14"):
        EmbeddedPostgres(folder).start()
    assert processes_of(folder) == []


def test_a_server_that_cannot_start_says_why(tmp_path, monkeypatch):
    """The server's own last words are in the error, and the folder is free again."""
    monkeypatch.setattr("director.store.embedded.START_AGAIN_S_MAX", 0.0)
    folder = tmp_path / "data"
    with pytest.raises(EmbeddedPostgresFailed, match=r"no_such_setting"):
        EmbeddedPostgres(folder, settings={"no_such_setting": "1"}).start()
    with EmbeddedRun(folder) as url:
        assert asyncio.run(ask(url)) > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_without_namespaces_another_user_runs_it(monkeypatch):
    """Where `unshare` is refused the data folder goes to an unprivileged user, and comes back later."""
    import shutil
    import tempfile

    parent = Path(tempfile.mkdtemp(prefix="director-tests-"))
    folder = parent / "data"
    parent.chmod(0o755)
    try:
        with monkeypatch.context() as patched:
            patched.setattr("director.store.unprivileged._namespace", lambda: None)
            server = EmbeddedPostgres(folder, settings=FAST)
            try:
                assert asyncio.run(ask(server.start())) > 0
                assert psutil.Process(server.pid).uids().effective not in (0, None)
            finally:
                server.stop()
        with EmbeddedRun(folder) as url:
            assert asyncio.run(ask(url)) > 0
    finally:
        shutil.rmtree(parent)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_a_folder_that_the_other_user_cannot_enter_is_refused_in_words(tmp_path, monkeypatch):
    """No parent folder is opened to anybody: the message says what to do instead."""
    monkeypatch.setattr("director.store.unprivileged._namespace", lambda: None)
    tmp_path.chmod(0o700)
    with pytest.raises(EmbeddedPostgresFailed, match="DIRECTOR_DATABASE_URL"):
        EmbeddedPostgres(tmp_path / "data").start()
    assert tmp_path.stat().st_mode & 0o077 == 0


class EmbeddedRun:
    """A server for the length of a `with`."""

    def __init__(self, folder: Path) -> None:
        self._server = EmbeddedPostgres(folder, settings=FAST)

    def __enter__(self) -> str:
        return self._server.start()

    def __exit__(self, *_: object) -> None:
        self._server.stop()


def test_a_folder_that_cannot_be_made_is_refused_in_words(tmp_path):
    """The system's words, and the path that they are about."""
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedPostgresFailed, match=r"file/data: Not a directory"):
        EmbeddedPostgres(tmp_path / "file" / "data").start()
