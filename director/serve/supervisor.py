"""`director serve`: the database, then the roles, each kept alive; and all of it gone when this process is.

Order: ports are tried first, then the database starts and is migrated, then the roles. When a real server is named
and does not answer, the roles start all the same (a replica can serve from its snapshot), and the preparation is
tried again until it works.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine
from typing import Any

import structlog

from director.serve import ports, running
from director.serve.child import UNUSABLE, Child, environment, start
from director.serve.gate import Gate
from director.serve.options import ROLES, Options
from director.store.embedded import EmbeddedPostgres
from director.store.errors import EmbeddedPostgresFailed

PREPARE_AGAIN_S = 3.0
UNAVAILABLE = 3
"""Exit code of the preparation when the database does not answer."""

log = structlog.get_logger()


class CannotStart(Exception):
    """The message is the one line to print; nothing is left running."""


async def supervise(options: Options) -> int:
    """Run the whole tree until SIGINT or SIGTERM. Returns the exit code. Raises CannotStart."""
    _refuse_second(options)
    try:
        ports.check(options)
    except ports.PortUnusable as error:
        raise CannotStart(str(error)) from error
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        server = EmbeddedPostgres(options.data / "postgres") if options.database_url is None else None
        return await _Tree(options, server, stop).run()
    except EmbeddedPostgresFailed as error:
        raise CannotStart(str(error)) from error


def _refuse_second(options: Options) -> None:
    other = running.read(options.data)
    if other is not None and other.pid != os.getpid():
        raise CannotStart(
            f"{options.data} is in use by a running director (process {other.pid}): stop it, or choose another --data"
        )


class _Tree:
    """Everything below this process. Modules load while the database starts; two gates keep the order."""

    def __init__(self, options: Options, server: EmbeddedPostgres | None, stop: asyncio.Event) -> None:
        self._options = options
        self._server = server
        self._stop = stop
        self._url = options.database_url or (server.url if server is not None else "")
        self._env = environment(DIRECTOR_DATABASE_URL=self._url)
        self._database_up = Gate()
        self._prepared = Gate()
        self._children = [
            Child(role, options.arguments(role, worker), self._env, self._prepared)
            for role in ROLES
            for worker in range(options.workers(role))
        ]

    async def run(self) -> int:
        async with contextlib.AsyncExitStack() as stack:
            # Undone in reverse: the roles, then the database, then the note that says where everything is.
            stack.callback(running.remove, self._options.data)
            if self._server is not None:
                stack.push_async_callback(asyncio.to_thread, self._server.stop)
            preparation = self._start(stack, self._prepare(), "prepare")
            roles = [self._start(stack, child.run(), child.name) for child in self._children]
            stack.push_async_callback(self._stop_children)
            if self._server is not None:
                await asyncio.to_thread(self._server.start)
                self._start(stack, self._server.supervise(), "postgres")
            self._database_up.open()
            self._note()
            stopped = self._start(stack, self._stop.wait(), "stop")
            await asyncio.wait([preparation, stopped], return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                return 0
            if preparation.result() not in (0, UNAVAILABLE):
                return UNUSABLE
            if preparation.result() == UNAVAILABLE:
                roles.append(self._start(stack, self._prepare_until_done(), "prepare"))
            self._prepared.open()
            return await self._watch(roles, stopped)

    async def _watch(self, tasks: list[asyncio.Task[Any]], stopped: asyncio.Task[Any]) -> int:
        """Until a stop is asked for, or something says that it can never work as it was told to."""
        waiting = {stopped, *tasks}
        while True:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if stopped in done:
                return 0
            if any(task.result() == UNUSABLE for task in done):
                return UNUSABLE

    def _start(self, stack: contextlib.AsyncExitStack, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=name)
        stack.push_async_callback(_end, task)
        return task

    async def _stop_children(self) -> None:
        """The planner goes last: it gives its lease back when nothing asks for plans any more."""
        for child in reversed(self._children):
            await child.stop()

    async def _prepare(self) -> int:
        """Migrate and import the policy, in a process that ends: what it imports weighs on no other."""
        policy = self._options.policy
        arguments = ["--policy", str(policy)] if policy is not None else []
        process = await start("director.serve.prepare", arguments, self._env, self._database_up)
        try:
            return await process.wait()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
            raise

    async def _prepare_until_done(self) -> int:
        while True:
            await asyncio.sleep(PREPARE_AGAIN_S)
            code = await self._prepare()
            if code != UNAVAILABLE:
                return code

    def _note(self) -> None:
        options = self._options
        running.write(
            options.data,
            running.Running(pid=os.getpid(), http=options.http_url, dns=options.dns_address, database_url=self._url),
        )


async def _end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
