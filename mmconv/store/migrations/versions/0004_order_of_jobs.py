"""Jobs in the order of lists: the newest of a kind, without a look at the others."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the index."""
    op.create_index("ix_jobs_listed", "jobs", ["kind", "created", "id"])
