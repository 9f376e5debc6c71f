"""Events name the request that caused them.

The release before can still run: the column may be null, and it neither reads nor writes it. Adding it rewrites no
row, so the table is locked for an instant only.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("events", sa.Column("request_id", sa.Text))


def downgrade() -> None:
    op.drop_column("events", "request_id")
