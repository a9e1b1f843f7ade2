"""Lambda's event source mapping on a DynamoDB stream: batches, answers, retries, splits and checkpoints.

`records` what is read, `config` the mapping's settings, `filters` which records count, `answers` what an answer of the
function means, `batches` what happens to a batch then, `commands` what the shell is told to do, `lanes` the state of
one lane, `machine` that of a shard, `lineage` which shards are read, and from where, `on_failure` what becomes of
records that are given up, `ttl` the deletions that local engines do not announce. `docs/event-source.md` is the whole
of it as one table. It is a model of AWS's documented behaviour, so that what works against it works there.
Sources of the behaviour: LDG Lambda developer guide; REC recordings of AWS's own answers.
"""
