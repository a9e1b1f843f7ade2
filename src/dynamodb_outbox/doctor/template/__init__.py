"""An inventory of a template: text is read (`forms`), SAM's kinds are written out (`sam`), and values worked out."""
