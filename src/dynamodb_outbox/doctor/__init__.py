"""What is wrong with an outbox that is deployed, or described by a template: `outbox doctor`.

Three steps. A collector makes an `inventory`: resources in the words of CloudFormation, read from a template
(`template`) or asked of an account (`account`). `choosing` makes a `System` of it: the table, its relay, its sweeper
and what is around them. `checks` lets each rule of `rules` look at that. The first step alone asks anything of anybody,
and asks nothing that changes something.

What cannot be seen is a value of its own, and never counts as right.
"""
