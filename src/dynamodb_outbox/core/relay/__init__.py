"""The relay: stream records in, commands out."""
