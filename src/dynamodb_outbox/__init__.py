"""Commit a change and its domain events in one DynamoDB write."""
