"""The calls that the doctor makes, and no other; and what comes of an answer.

An answer of the service is a mapping; None where it says that there is no such thing; Unseen where it refuses to say,
or cannot be reached. No such answer ends anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError, CredentialRetrievalError, NoCredentialsError, PartialCredentialsError

from dynamodb_outbox.doctor.inventory import Unseen
from dynamodb_outbox.errors import OutboxError
from dynamodb_outbox.sdk.clients import OwnClient
from dynamodb_outbox.sdk.errors import TRANSPORT, said

__all__ = ["CALLS", "READS_ITEMS", "Asking", "Clients", "NotAnswered", "own_clients"]

Clients = Callable[[str, "str | None"], Any]
"""Makes the boto3 client of a service, in a Region or in the one that is set up."""

CALLS: Mapping[tuple[str, str], str] = {
    ("dynamodb", "DescribeTable"): "dynamodb:DescribeTable",
    ("dynamodb", "DescribeTimeToLive"): "dynamodb:DescribeTimeToLive",
    ("dynamodb", "DescribeContinuousBackups"): "dynamodb:DescribeContinuousBackups",
    ("dynamodb", "Scan"): "dynamodb:Scan",
    ("lambda", "ListEventSourceMappings"): "lambda:ListEventSourceMappings",
    ("lambda", "ListFunctions"): "lambda:ListFunctions",
    ("lambda", "GetFunctionConfiguration"): "lambda:GetFunctionConfiguration",
    ("lambda", "GetFunctionConcurrency"): "lambda:GetFunctionConcurrency",
    ("lambda", "GetPolicy"): "lambda:GetPolicy",
    ("iam", "GetRole"): "iam:GetRole",
    ("iam", "ListRolePolicies"): "iam:ListRolePolicies",
    ("iam", "GetRolePolicy"): "iam:GetRolePolicy",
    ("iam", "ListAttachedRolePolicies"): "iam:ListAttachedRolePolicies",
    ("iam", "GetPolicy"): "iam:GetPolicy",
    ("iam", "GetPolicyVersion"): "iam:GetPolicyVersion",
    ("cloudwatch", "DescribeAlarms"): "cloudwatch:DescribeAlarms",
    ("events", "DescribeEventBus"): "events:DescribeEventBus",
    ("events", "ListArchives"): "events:ListArchives",
    ("events", "ListRuleNamesByTarget"): "events:ListRuleNamesByTarget",
    ("events", "DescribeRule"): "events:DescribeRule",
    ("sns", "GetTopicAttributes"): "sns:GetTopicAttributes",
    ("sqs", "GetQueueUrl"): "sqs:GetQueueUrl",
    ("sqs", "GetQueueAttributes"): "sqs:GetQueueAttributes",
    ("s3", "HeadBucket"): "s3:ListBucket",
    ("s3", "GetBucketLifecycleConfiguration"): "s3:GetLifecycleConfiguration",
    ("s3", "GetBucketEncryption"): "s3:GetEncryptionConfiguration",
    ("s3", "GetBucketPolicy"): "s3:GetBucketPolicy",
    ("kms", "DescribeKey"): "kms:DescribeKey",
}
"""Every call, by service and operation, and the action of IAM that it needs. Scan is made with --read-items alone."""

READS_ITEMS = ("dynamodb", "Scan")
"""The only call that reads what is in the table."""

_WORD = re.compile(r"(?<!^)(?=[A-Z])")
_DENIED = re.compile(r"AccessDenied|Unauthorized|AuthorizationError|NotAuthorized|Forbidden|^403$")
_GONE = re.compile(
    r"ResourceNotFound|NoSuchEntity|NoSuchBucket|NotFoundException|NonExistentQueue|QueueDoesNotExist|^NotFound$|^404$"
    r"|NoSuchLifecycleConfiguration|ServerSideEncryptionConfigurationNotFound"
)
_WITHOUT_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError)
_TIMEOUT_S = 5
_PAGES = 1000

Answer = Mapping[str, Any] | Unseen | None


class NotAnswered(OutboxError):
    """The account cannot be looked at: there are no credentials, there is no such table, or nobody answers."""


def own_clients(service: str, region: str | None) -> Any:
    """Return a client of our own: three attempts, each within seconds. Raises NoClient."""
    config = Config(
        connect_timeout=_TIMEOUT_S, read_timeout=_TIMEOUT_S, retries={"mode": "standard", "total_max_attempts": 3}
    )
    return OwnClient(service, config, region=region).get()


class Asking:
    """Makes calls. `answers` counts those that a service answered; `unanswered` tells of the last that none did."""

    def __init__(self, clients: Clients) -> None:
        self._make = clients
        self._made: dict[tuple[str, str | None], Any] = {}
        self.answers = 0
        self.unanswered: Unseen | None = None

    def ask(self, service: str, operation: str, region: str | None = None, **arguments: Any) -> Answer:
        """Return the answer.

        Raises KeyError for a call that is not in CALLS, and NotAnswered when there are no credentials.
        """
        action = CALLS[service, operation]
        client = self._client(service, region)
        try:
            answer: Mapping[str, Any] = getattr(client, _WORD.sub("_", operation).lower())(**arguments)
        except _WITHOUT_CREDENTIALS as error:
            raise NotAnswered(f"there are no credentials: {said(error).message}") from None
        except TRANSPORT as error:
            return self._refused(error, action)
        self.answers += 1
        return answer

    def all(self, service: str, operation: str, members: str, token: tuple[str, str], **arguments: Any) -> Any:
        """Return all members of the pages of a list; Unseen where there is no end of pages.

        `token` are the names of the next page's token, out and in.
        """
        found: list[Any] = []
        more: dict[str, Any] = {}
        for _ in range(_PAGES):
            answer = self.ask(service, operation, **arguments, **more)
            if answer is None or isinstance(answer, Unseen):
                return answer
            found += answer.get(members) or ()
            if not answer.get(token[0]):
                return found
            more = {token[1]: answer[token[0]]}
        return Unseen(f"{CALLS[service, operation]} has more than {_PAGES:,} pages")

    def place(self, service: str) -> str:
        """Return where a service is asked: its Region and its endpoint."""
        meta = self._client(service, None).meta
        return f"Region {meta.region_name} ({meta.endpoint_url})"

    def _client(self, service: str, region: str | None) -> Any:
        if (service, region) not in self._made:
            self._made[service, region] = self._make(service, region)
        return self._made[service, region]

    def _refused(self, error: Exception, action: str) -> Unseen | None:
        code = said(error).code
        if not isinstance(error, ClientError):
            self.unanswered = Unseen(f"{action} was not answered ({said(error)})")
            return self.unanswered
        self.answers += 1
        if _DENIED.search(code):
            return Unseen(f"access to {action} was denied")
        return None if _GONE.search(code) else Unseen(f"{action} was refused ({said(error)})")
