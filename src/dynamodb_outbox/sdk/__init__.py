"""What sinks and adapters share about the AWS SDK: making a client, and reading what went wrong."""
