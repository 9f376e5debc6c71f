"""`python -m director.serve.prepare`: migrate, make the first signing key, and take a policy folder in. Then end.

A process of its own: migrations and YAML weigh tens of megabytes, and no role needs them.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import click
import structlog

from director.policy.load import LoadedPolicy, load
from director.policy.problem import PolicyInvalid
from director.serve import gate, logs
from director.serve.child import UNUSABLE, die_with_parent
from director.serve.supervisor import UNAVAILABLE
from director.store import keys, migrate, policies
from director.store.database import Database, DatabaseUnavailable

WHO = "director serve"
PATIENCE_S = 5.0
"""The supervisor starts the roles after this without a database, and asks again."""

log = structlog.get_logger()


@click.command()
@click.option("--policy", type=click.Path(path_type=Path))
def main(policy: Path | None) -> None:
    die_with_parent()
    logs.configure("prepare")
    sys.exit(prepare(os.environ["DIRECTOR_DATABASE_URL"], policy))


def prepare(url: str, folder: Path | None) -> int:
    """The exit code: 0, UNUSABLE for a policy that cannot be used, UNAVAILABLE when the database does not answer."""
    loaded = None
    if folder is not None:
        try:
            loaded = load(folder)
        except PolicyInvalid as error:
            for problem in error.problems:
                print(problem, file=sys.stderr)  # noqa: T201  (for the person who started us, as `policy check` says it)
            return UNUSABLE
        for warning in loaded.warnings:
            log.warning("policy_warning", what=str(warning))
    gate.wait()
    try:
        migrate.upgrade(url, try_s_max=PATIENCE_S)
        asyncio.run(_fill(url, loaded))
    except DatabaseUnavailable as error:
        log.warning("database_unavailable", why=str(error))
        return UNAVAILABLE
    except (migrate.MigrationFailed, ValueError) as error:
        log.error("cannot_prepare", why=str(error))
        return UNUSABLE
    return 0


async def _fill(url: str, loaded: LoadedPolicy | None) -> None:
    database = Database(url, pool_size=1)
    try:
        await keys.ensure(database)
        if loaded is not None:
            await take_in(database, loaded)
    finally:
        await database.close()


async def take_in(database: Database, loaded: LoadedPolicy) -> int:
    """Store the folder's policy if the folder is new or has changed since it was last taken in; the version in force.

    A folder that has not changed never overrides what was applied over the API since: it is not newer, only older.
    """
    current = await policies.current(database)
    if current is not None:
        if current.files == loaded.files:
            return current.version
        for past in await policies.history(database):
            if past.who == WHO:
                taken = await policies.get(database, past.version)
                if taken is not None and taken.files == loaded.files:
                    log.info("policy_kept", version=current.version, who=current.who, folder_is_version=past.version)
                    return current.version
                break
    why = "the first policy" if current is None else "the policy folder changed"
    version = await policies.add(database, loaded.files, loaded.policy, WHO, why)
    log.info("policy_taken_in", version=version, why=why, files=sorted(loaded.files))
    return version


if __name__ == "__main__":
    main()
