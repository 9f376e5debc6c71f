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
import sys

import structlog

from director.serve import ports, running
from director.serve.child import UNUSABLE, Child, environment
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
    async with contextlib.AsyncExitStack() as stack:
        url = options.database_url or await _embedded(options, stack)
        running.write(
            options.data,
            running.Running(pid=os.getpid(), http=options.http_url, dns=options.dns_address, database_url=url),
        )
        stack.callback(running.remove, options.data)
        return await _run(options, environment(DIRECTOR_DATABASE_URL=url), stop)


def _refuse_second(options: Options) -> None:
    other = running.read(options.data)
    if other is not None and other.pid != os.getpid():
        raise CannotStart(
            f"{options.data} is in use by a running director (process {other.pid}): stop it, or choose another --data"
        )


async def _embedded(options: Options, stack: contextlib.AsyncExitStack) -> str:
    """Start the embedded server and keep it alive; its URL."""
    try:
        server = EmbeddedPostgres(options.data / "postgres")
        stack.push_async_callback(asyncio.to_thread, server.stop)
        url = await asyncio.to_thread(server.start)
    except EmbeddedPostgresFailed as error:
        raise CannotStart(str(error)) from error
    keeper = asyncio.create_task(server.supervise(), name="postgres")
    stack.push_async_callback(_cancel, keeper)
    return url


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _run(options: Options, env: dict[str, str], stop: asyncio.Event) -> int:
    stopped = asyncio.create_task(stop.wait(), name="stop")
    code = await _prepare(options, env, stopped)
    if code == UNUSABLE or stop.is_set():
        return code if not stop.is_set() else 0
    children = [Child(role, options.arguments(role), env) for role in ROLES]
    tasks = [asyncio.create_task(child.run(), name=child.name) for child in children]
    if code == UNAVAILABLE:
        tasks.append(asyncio.create_task(_prepare_until_done(options, env, stopped), name="prepare"))
    try:
        while True:
            done, _ = await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
            if stopped in done:
                return 0
            for task in done:
                tasks.remove(task)
                if task.result() == UNUSABLE:
                    return UNUSABLE
    finally:
        # The planner goes last: it gives its lease back when nothing asks for plans any more.
        for child in reversed(children):
            await child.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _prepare_until_done(options: Options, env: dict[str, str], stopped: asyncio.Task[bool]) -> int:
    while True:
        await asyncio.sleep(PREPARE_AGAIN_S)
        code = await _prepare(options, env, stopped)
        if code != UNAVAILABLE:
            return code


async def _prepare(options: Options, env: dict[str, str], stopped: asyncio.Task[bool]) -> int:
    """Migrate and import the policy, in a process that ends: what it imports weighs on no other."""
    arguments = ["--policy", str(options.policy)] if options.policy is not None else []
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "director.serve.prepare", *arguments, env=env, process_group=0
    )
    ended = asyncio.create_task(process.wait())
    await asyncio.wait([ended, stopped], return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        process.terminate()
    return await ended
