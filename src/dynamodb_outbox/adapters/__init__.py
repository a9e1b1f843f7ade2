"""Adapters: the ports over boto3 and the operating system. Independent of each other."""
