"""Which model answered, as its server names it."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column; it is unknown for existing replies."""
    op.add_column("replies", sa.Column("answered_by", sa.Text))
