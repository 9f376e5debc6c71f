"""Leadership: one row that says who, which term, and until when by the database's clock.

No session-level lock: it survives neither a connection pooler nor a paused holder. A term is never used twice, not even
after the database was restored from a backup: it is at least the database's seconds.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, cast, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from director.store.database import Database
from director.store.notify import notify
from director.store.tables import leases
from director.store.times import ahead, as_ms, database_now

PLANNER = "planner"


class Fenced(Exception):
    """The writer is not the leader (any more), or its memory is not what is stored. Step down and begin anew."""


async def acquire(db: Database, holder: str, ttl_s: float) -> int | None:
    """Become the leader for `ttl_s` if nobody is: the new term. None: another holds the lease.

    `holder` is unique for each start of a process. Raises DatabaseUnavailable.
    """
    seconds_ = cast(func.floor(func.extract("epoch", database_now())), BigInteger)
    put = insert(leases).values(name=PLANNER, holder=holder, term=seconds_, expires_at=ahead(ttl_s))
    taken = put.on_conflict_do_update(
        index_elements=["name"],
        set_={
            "holder": put.excluded.holder,
            "term": func.greatest(leases.c.term + 1, put.excluded.term),
            "expires_at": ahead(ttl_s),
        },
        where=leases.c.expires_at <= database_now(),
    ).returning(leases.c.term)
    async with db.single() as connection:
        term: int | None = (await connection.execute(taken)).scalar_one_or_none()
    return term


async def renew(db: Database, holder: str, term: int, ttl_s: float) -> bool:
    """Stay the leader for `ttl_s` from now. False: the lease ended or passed on. Raises DatabaseUnavailable."""
    query = (
        update(leases)
        .where(
            leases.c.name == PLANNER,
            leases.c.holder == holder,
            leases.c.term == term,
            leases.c.expires_at > database_now(),
        )
        .values(expires_at=ahead(ttl_s))
    )
    async with db.single() as connection:
        return bool((await connection.execute(query)).rowcount)


async def release(db: Database, holder: str, term: int) -> None:
    """End our own lease at once, so that another need not wait. Nothing if it is not ours."""
    query = (
        update(leases)
        .where(leases.c.name == PLANNER, leases.c.holder == holder, leases.c.term == term)
        .values(expires_at=database_now())
    )
    async with db.transaction() as connection:
        if (await connection.execute(query)).rowcount:
            await notify(connection, "lease")


async def leader(db: Database) -> tuple[str, int, int] | None:
    """(holder, term, expires_at_ms) while a lease is held. Raises DatabaseUnavailable."""
    query = select(leases.c.holder, leases.c.term, as_ms(leases.c.expires_at))
    query = query.where(leases.c.name == PLANNER, leases.c.expires_at > database_now())
    async with db.single() as connection:
        row = (await connection.execute(query)).one_or_none()
    return None if row is None else (row[0], row[1], row[2])


async def require_term(connection: AsyncConnection, term: int) -> None:
    """Hold the lease row still until the transaction ends. Raises Fenced unless `term` is the live one."""
    query = select(leases.c.term, leases.c.expires_at > database_now()).where(leases.c.name == PLANNER)
    row = (await connection.execute(query.with_for_update(read=True))).one_or_none()
    if row is None:
        raise Fenced(f"term {term}: no lease was ever taken here")
    if row[0] != term:
        raise Fenced(f"term {term} is over: the lease is at term {row[0]}")
    if not row[1]:
        raise Fenced(f"term {term}: its lease has ended")
