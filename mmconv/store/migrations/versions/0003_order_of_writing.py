"""The order in which replies were written, and room for longer names of runs."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column; rows that are there already keep no number, and SQLite's get none."""
    op.add_column("replies", sa.Column("written", sa.BigInteger))
    if op.get_context().dialect.name == "postgresql":
        op.create_index("ix_replies_written", "replies", ["written"])
        number = "pg_current_xact_id()::text::bigint"
        op.execute(f"ALTER TABLE replies ALTER COLUMN written SET DEFAULT ({number})")
    with op.batch_alter_table("runs") as table:
        table.alter_column(
            "id", type_=sa.String(255), existing_type=sa.String(80), existing_nullable=False
        )
