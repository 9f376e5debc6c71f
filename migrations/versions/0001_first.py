"""Everything the first release stores.

There is no previous release to keep running. Later migrations say here why the release before can still run.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = (
    "tokens",
    "report_history",
    "regions",
    "probes",
    "policies",
    "plans",
    "planner_state",
    "outcome_batches",
    "operator_settings",
    "leases",
    "latest_reports",
    "events",
    "deployments",
    "demand",
    "affinity_keys",
)


def _id() -> sa.Column[int]:
    return sa.Column("id", sa.BigInteger, sa.Identity(always=True), nullable=False)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def _moment(name: str) -> sa.Column[object]:
    """By the database's clock, of the row's making."""
    return sa.Column(name, sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False)


def upgrade() -> None:
    op.create_table(
        "affinity_keys",
        _text("id"),
        sa.Column("secret", sa.LargeBinary, nullable=False),
        _moment("created_at"),
        _moment("signs_from"),
        sa.Column("retired_at", sa.DateTime(timezone=True)),
        sa.CheckConstraint("octet_length(secret) = 32", name=op.f("ck_affinity_keys_secret_length")),
        sa.PrimaryKeyConstraint("id", name="pk_affinity_keys"),
    )
    op.create_table(
        "demand",
        _id(),
        _text("replica"),
        _text("content"),
        _moment("received_at"),
        sa.PrimaryKeyConstraint("id", name="pk_demand"),
    )
    op.create_index("ix_demand_received_at", "demand", ["received_at"])
    op.create_table(
        "deployments",
        _text("region"),
        _text("model"),
        _text("version"),
        sa.Column("engine", sa.Text),
        _text("state"),
        sa.Column("ready_replicas", sa.BigInteger, nullable=False),
        sa.Column("total_replicas", sa.BigInteger, nullable=False),
        _moment("first_seen_at"),
        _moment("changed_at"),
        sa.PrimaryKeyConstraint("region", "model", "version", name="pk_deployments"),
    )
    op.create_table(
        "events",
        _id(),
        _moment("at"),
        _text("kind"),
        sa.Column("region", sa.Text),
        sa.Column("model", sa.Text),
        sa.Column("version", sa.Text),
        sa.Column("before", sa.Text),
        sa.Column("after", sa.Text),
        _text("why"),
        _text("who"),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
    )
    op.create_index("ix_events_at", "events", ["at"])
    op.create_index("ix_events_region_id", "events", ["region", "id"])
    op.create_table(
        "latest_reports",
        _text("region"),
        _text("boot_id"),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        _text("content"),
        _moment("received_at"),
        sa.PrimaryKeyConstraint("region", name="pk_latest_reports"),
    )
    op.create_table(
        "leases",
        _text("name"),
        _text("holder"),
        sa.Column("term", sa.BigInteger, nullable=False),
        _moment("expires_at"),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )
    op.create_table(
        "operator_settings",
        _text("region"),
        _text("kind"),
        _text("who"),
        _text("reason"),
        _moment("set_at"),
        sa.Column("deadline_at", sa.DateTime(timezone=True)),
        sa.Column("share", sa.Double),
        sa.CheckConstraint("kind IN ('drain', 'down', 'cap')", name=op.f("ck_operator_settings_kind")),
        sa.PrimaryKeyConstraint("region", "kind", name="pk_operator_settings"),
    )
    op.create_table(
        "outcome_batches",
        _id(),
        _text("reporter"),
        _text("batch"),
        _text("content"),
        _moment("received_at"),
        sa.PrimaryKeyConstraint("id", name="pk_outcome_batches"),
        sa.UniqueConstraint("reporter", "batch", name="uq_outcome_batches_reporter_batch"),
    )
    op.create_index("ix_outcome_batches_received_at", "outcome_batches", ["received_at"])
    op.create_table(
        "planner_state",
        _text("name"),
        sa.Column("term", sa.BigInteger, nullable=False),
        sa.Column("content_zlib", sa.LargeBinary, nullable=False),
        sa.Column("cursors", sa.Text, server_default="{}", nullable=False),
        _moment("at"),
        sa.PrimaryKeyConstraint("name", name="pk_planner_state"),
    )
    op.create_table(
        "plans",
        sa.Column("epoch", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("previous", sa.BigInteger, nullable=False),
        sa.Column("term", sa.BigInteger, nullable=False),
        sa.Column("policy", sa.BigInteger, nullable=False),
        _text("content"),
        _text("content_hash"),
        sa.Column("base", sa.BigInteger),
        _moment("at"),
        sa.CheckConstraint("epoch > previous", name=op.f("ck_plans_epoch_grows")),
        sa.PrimaryKeyConstraint("epoch", name="pk_plans"),
        sa.UniqueConstraint("previous", name="uq_plans_previous"),
    )
    op.create_index("ix_plans_at", "plans", ["at"])
    op.create_table(
        "policies",
        sa.Column("version", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("files", postgresql.JSONB, nullable=False),
        _text("content"),
        _text("who"),
        _text("why"),
        _moment("at"),
        sa.PrimaryKeyConstraint("version", name="pk_policies"),
    )
    op.create_table(
        "probes",
        _id(),
        _text("replica"),
        _text("region"),
        sa.Column("ok", sa.Boolean, nullable=False),
        _moment("at"),
        sa.PrimaryKeyConstraint("id", name="pk_probes"),
    )
    op.create_index("ix_probes_at", "probes", ["at"])
    op.create_table(
        "regions",
        _text("region"),
        _moment("first_seen_at"),
        _moment("last_seen_at"),
        sa.PrimaryKeyConstraint("region", name="pk_regions"),
    )
    op.create_table(
        "report_history",
        _id(),
        _text("region"),
        _text("boot_id"),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("body_zlib", sa.LargeBinary, nullable=False),
        _moment("received_at"),
        sa.PrimaryKeyConstraint("id", name="pk_report_history"),
        sa.UniqueConstraint("region", "boot_id", "sequence", name="uq_report_history_region_boot_id_sequence"),
    )
    op.create_index("ix_report_history_received_at", "report_history", ["received_at"])
    op.create_index("ix_report_history_region_received_at", "report_history", ["region", "received_at"])
    op.create_table(
        "tokens",
        _id(),
        _text("hash"),
        _text("name"),
        sa.Column("scopes", postgresql.ARRAY(sa.Text), nullable=False),
        sa.Column("trusted_headers", sa.Boolean, server_default=sa.text("false"), nullable=False),
        _moment("created_at"),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("hash", name="uq_tokens_hash"),
    )
    op.create_index(
        "uq_tokens_name_live", "tokens", ["name"], unique=True, postgresql_where=sa.text("revoked_at IS NULL")
    )


def downgrade() -> None:
    for table in TABLES:
        op.drop_table(table)
