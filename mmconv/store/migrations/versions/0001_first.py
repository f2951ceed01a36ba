"""The first schema: replies, failures, images and runs."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "replies",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("reasoning", sa.Text),
        sa.Column("finish", sa.String(16), nullable=False),
        sa.Column("input_tokens", sa.Integer),
        sa.Column("output_tokens", sa.Integer),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("dropped", sa.Integer, nullable=False),
        sa.Column("seen", sa.Text),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "failures",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("key", sa.String(64), nullable=False, index=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "images",
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("media_type", sa.String(32), nullable=False),
        sa.Column("width", sa.Integer, nullable=False),
        sa.Column("height", sa.Integer, nullable=False),
        sa.Column("mode", sa.String(8), nullable=False),
        sa.Column("frames", sa.Integer, nullable=False),
        sa.Column("byte_count", sa.Integer, nullable=False),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(80), primary_key=True),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
    )
