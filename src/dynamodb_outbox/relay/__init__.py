"""The relay's shell: `publisher` is its façade, and drives one `invocation` of the machine in `core.relay` at a time.

What an invocation is made of lies beside it, each its own concept: what it is given (`delivery`), what a sink that
somebody else wrote may answer (`foreign`), records of other layouts (`misfits`), why events were left (`leftovers`),
what it logs (`log`), and until when what may begin (`margins`). `setup` looks at arguments. A sweeper
(`dynamodb_outbox.recover`) publishes what it has found by the same invocation.
"""
