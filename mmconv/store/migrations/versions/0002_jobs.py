"""The served API's queue: jobs, and the idempotency keys under which they were submitted."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False, index=True),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("benchmark", sa.String(64), index=True),
        sa.Column("model", sa.Text),
        sa.Column("state", sa.String(16), nullable=False, index=True),
        sa.Column("stopping", sa.Boolean, nullable=False),
        sa.Column("worker", sa.String(128)),
        sa.Column("lease", sa.DateTime(timezone=True)),
        sa.Column("starts", sa.Integer, nullable=False),
        sa.Column("progress", sa.Text, nullable=False),
        sa.Column("lost", sa.Integer, nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("queued", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started", sa.DateTime(timezone=True)),
        sa.Column("updated", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended", sa.DateTime(timezone=True)),
    )
    op.create_table(
        "job_keys",
        sa.Column("owner", sa.String(64), primary_key=True),
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("job", sa.String(128), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
    )
