"""Alembic's entry. `director.store.migrate` opens the transaction, takes the lock and hands the connection in."""

from __future__ import annotations

from alembic import context

from director.store.tables import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    compare_type=True,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
