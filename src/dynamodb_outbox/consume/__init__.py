"""The consuming side: messages of a source in, effects applied once."""
