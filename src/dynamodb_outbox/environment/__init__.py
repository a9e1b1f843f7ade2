"""The environment of a ready-made function: `variables` is the table of what there is, `settings` what it comes to."""
