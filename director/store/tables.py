"""The tables. Migrations create them; a test holds the two equal.

What only the director reads whole (reports, plans, policies, demand) is `text` that holds JSON as msgspec wrote it.
`jsonb` would have the server parse each document and print it anew, and a second parser's idea of numbers; `bytea`
would hide it from a person with psql, for whom `content::jsonb` is enough. Two things that nobody reads by eye are
compressed by us, which is three times as fast as leaving it to the server: the history of reports, because there is
much of it, and the planner's state, because a large fleet's has megabytes and is written every second.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

NOW = text("clock_timestamp()")


def _moment(name: str, *, given: bool = True) -> Column[object]:
    """A time by the database's clock: of the row's making, or one that may be missing."""
    if given:
        return Column(name, DateTime(timezone=True), nullable=False, server_default=NOW)
    return Column(name, DateTime(timezone=True))


def _id() -> Column[int]:
    return Column("id", BigInteger, Identity(always=True), primary_key=True)


regions = Table(
    "regions",
    metadata,
    Column("region", Text, primary_key=True),
    _moment("first_seen_at"),
    _moment("last_seen_at"),
)

deployments = Table(
    "deployments",
    metadata,
    Column("region", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("version", Text, primary_key=True),
    Column("engine", Text),
    Column("state", Text, nullable=False),
    Column("ready_replicas", BigInteger, nullable=False),
    Column("total_replicas", BigInteger, nullable=False),
    _moment("first_seen_at"),
    _moment("changed_at"),
)

latest_reports = Table(
    "latest_reports",
    metadata,
    Column("region", Text, primary_key=True),
    Column("boot_id", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("content", Text, nullable=False),
    _moment("received_at"),
)

report_history = Table(
    "report_history",
    metadata,
    _id(),
    Column("region", Text, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("body_zlib", LargeBinary, nullable=False),
    _moment("received_at"),
    UniqueConstraint("region", "boot_id", "sequence"),
    Index(None, "region", "received_at"),
    Index(None, "received_at"),
)

planner_state = Table(
    "planner_state",
    metadata,
    Column("name", Text, primary_key=True),
    Column("term", BigInteger, nullable=False),
    Column("content_zlib", LargeBinary, nullable=False),
    Column("cursors", Text, nullable=False, server_default="{}"),
    _moment("at"),
)

plans = Table(
    "plans",
    metadata,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("previous", BigInteger, nullable=False, unique=True),
    Column("term", BigInteger, nullable=False),
    Column("policy", BigInteger, nullable=False),
    Column("content", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("base", BigInteger),
    _moment("at"),
    CheckConstraint("epoch > previous", name="epoch_grows"),
    Index(None, "at"),
)

leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("term", BigInteger, nullable=False),
    _moment("expires_at"),
)

events = Table(
    "events",
    metadata,
    _id(),
    _moment("at"),
    Column("kind", Text, nullable=False),
    Column("region", Text),
    Column("model", Text),
    Column("version", Text),
    Column("before", Text),
    Column("after", Text),
    Column("why", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("request_id", Text),
    Index(None, "at"),
    Index(None, "region", "id"),
)

policies = Table(
    "policies",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("files", JSONB, nullable=False),
    Column("content", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("why", Text, nullable=False),
    _moment("at"),
)

tokens = Table(
    "tokens",
    metadata,
    _id(),
    Column("hash", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("trusted_headers", Boolean, nullable=False, server_default=text("false")),
    _moment("created_at"),
    _moment("expires_at", given=False),
    _moment("revoked_at", given=False),
    Index("uq_tokens_name_live", "name", unique=True, postgresql_where=text("revoked_at IS NULL")),
)

affinity_keys = Table(
    "affinity_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("secret", LargeBinary, nullable=False),
    _moment("created_at"),
    _moment("signs_from"),
    _moment("retired_at", given=False),
    CheckConstraint("octet_length(secret) = 32", name="secret_length"),
)

operator_settings = Table(
    "operator_settings",
    metadata,
    Column("region", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("who", Text, nullable=False),
    Column("reason", Text, nullable=False),
    _moment("set_at"),
    _moment("deadline_at", given=False),
    Column("share", Double),
    CheckConstraint("kind IN ('drain', 'down', 'cap')", name="kind"),
)

demand = Table(
    "demand",
    metadata,
    _id(),
    Column("replica", Text, nullable=False),
    Column("content", Text, nullable=False),
    _moment("received_at"),
    Index(None, "received_at"),
)

outcome_batches = Table(
    "outcome_batches",
    metadata,
    _id(),
    Column("reporter", Text, nullable=False),
    Column("batch", Text, nullable=False),
    Column("content", Text, nullable=False),
    _moment("received_at"),
    UniqueConstraint("reporter", "batch"),
    Index(None, "received_at"),
)

probes = Table(
    "probes",
    metadata,
    _id(),
    Column("replica", Text, nullable=False),
    Column("region", Text, nullable=False),
    Column("ok", Boolean, nullable=False),
    _moment("at"),
    Index(None, "at"),
)
