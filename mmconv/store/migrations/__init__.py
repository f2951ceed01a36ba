"""Alembic migrations of the store; run by `mmconv.store.schema` when a database is opened."""
