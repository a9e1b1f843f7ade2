"""Every attribute of records under another name."""

from __future__ import annotations

from dynamodb_outbox.layout import RECORD_ATTRIBUTES

OTHER_NAMES = {name: f"x_{name}" for name in sorted(RECORD_ATTRIBUTES) if not name.startswith("ob_")}
"""`columns` of a layout; names that begin with `ob_` stay what they are."""
