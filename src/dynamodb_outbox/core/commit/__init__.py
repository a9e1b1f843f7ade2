"""The commit: from actions and events to one request, and from its answers to a receipt."""
