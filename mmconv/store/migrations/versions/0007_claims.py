"""Claims: which calls are being requested, and by which process."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "claims",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("owner", sa.String(160), nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
    )
    op.create_index("ix_claims_owner", "claims", ["owner"])
