"""Policies as AWS takes them: the documents of roles, and of what else has a policy. The same words in each rendering.

`say` turns a reference into the words of the rendering.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.infra.references import Attribute, Value, joined

if TYPE_CHECKING:
    from dynamodb_outbox.infra.resources import Bucket, Statement, Topic

__all__ = ["Document", "Say", "bucket_policy", "role_policy", "topic_policy", "trust_policy"]

Say = Callable[[Value], Any]
Document = dict[str, Any]


def role_policy(statements: tuple[Statement, ...], say: Say) -> Document:
    """Return the document of what a role may do."""
    said = []
    for each in statements:
        one: Document = {
            "Sid": each.sid,
            "Effect": "Allow",
            "Action": list(each.actions),
            "Resource": [say(resource) for resource in each.resources],
        }
        said.append(one if each.condition is None else one | {"Condition": each.condition})
    return _document(*said)


def trust_policy() -> Document:
    """Return the document of who may take a role: Lambda."""
    lambda_ = {"Service": "lambda.amazonaws.com"}
    return _document({"Effect": "Allow", "Principal": lambda_, "Action": "sts:AssumeRole"})


def bucket_policy(bucket: Bucket, say: Say) -> Document:
    """Return the document of a bucket that nobody reaches without TLS."""
    arn = Attribute(bucket.id, "arn")
    return _document(
        {
            "Sid": "EncryptedInTransit",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:*",
            "Resource": [say(arn), say(joined(arn, "/*"))],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
    )


def topic_policy(topic: Topic, account: Any, say: Say) -> Document:
    """Return the document of a topic to which alarms of `account` may publish."""
    return _document(
        {
            "Sid": "Alarms",
            "Effect": "Allow",
            "Principal": {"Service": "cloudwatch.amazonaws.com"},
            "Action": "sns:Publish",
            "Resource": say(Attribute(topic.id, "arn")),
            "Condition": {"StringEquals": {"aws:SourceAccount": account}},
        }
    )


def _document(*statements: Document) -> Document:
    return {"Version": "2012-10-17", "Statement": list(statements)}
