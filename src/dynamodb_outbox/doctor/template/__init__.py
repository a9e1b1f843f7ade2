"""An inventory of a template whose text was read: SAM's kinds are written out (`sam`), and values worked out."""
