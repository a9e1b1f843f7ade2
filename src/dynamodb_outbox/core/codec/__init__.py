"""Values, payloads and envelopes as text and as DynamoDB's wire form."""
