"""The outbox record: its schema, how it is written, read, and moved from state to state."""
