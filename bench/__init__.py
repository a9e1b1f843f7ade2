"""Ratios against a named rival, measured in the same run: `make bench`."""
