"""Alembic's entry: uses the connection that the store passes, inside its transaction."""

from alembic import context

from kernelwright.store.schema import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
)
context.run_migrations()
