"""The sweep: what the index names and nobody has published goes in, what to publish comes out."""
