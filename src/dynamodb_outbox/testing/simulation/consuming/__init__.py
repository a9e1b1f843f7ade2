"""Consumers in a simulated world: a queue behind the buses, instances that may die or stand still, and their table."""
