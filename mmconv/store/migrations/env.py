"""Alembic's entry point: migrates the connection that `mmconv.store.schema` hands over."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
