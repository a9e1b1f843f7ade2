"""The whole system on one machine, without AWS: an embedded engine, its tables and buses, and Lambda's event sources.

Nothing here is needed in production. The modules are imported one by one (`dynamodb_outbox.local.engine`, `.provision`,
`.source`, `.queue`, `.function`), so that asking for one does not load the others.
"""
