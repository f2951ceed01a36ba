"""A checksum of each reply, so that a changed one is noticed."""

import sqlalchemy as sa
from alembic import op

from mmconv.store.rows import fill_checksums

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column, and take the replies that are there as they are."""
    op.add_column("replies", sa.Column("checksum", sa.String(32)))
    fill_checksums(op.get_bind())
