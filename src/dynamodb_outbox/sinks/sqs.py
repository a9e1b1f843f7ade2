"""Amazon SQS: SendMessageBatch, to standard and FIFO queues.

An event becomes one message: its envelope as the body, and a few attributes. The event's key is the message's group: a
FIFO queue keeps the order of each group and takes an id once within five minutes; a standard queue keeps no order, and
goes by groups only to be fair between them. The name of a FIFO queue ends in `.fifo`: AWS gives that ending to FIFO
queues alone.

A queue is addressed by its URL. Given an ARN, the sink asks for the URL (GetQueueUrl) when it first needs it, and keeps
it: a queue that is made again has the same one. When that fails nothing was sent, and no event is to blame.

SendMessageBatch answers 200 with a result for each entry, some of which may be failures; the SDK does not retry those.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import flag, refusal, shown, text
from dynamodb_outbox.core.limits import QUEUE_NAME_LENGTH, SQS, SinkLimits
from dynamodb_outbox.core.relay.outcome import Fault, Kind, Outcome, Prepared, RequestFailed, Verified
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.sdk.clients import OwnClient
from dynamodb_outbox.sdk.errors import TRANSPORT
from dynamodb_outbox.sinks.arns import arn_of
from dynamodb_outbox.sinks.failures import Codes, classify, never_sent
from dynamodb_outbox.sinks.messages import MessageForm, numbered, outcome
from dynamodb_outbox.sinks.options import envelope_of, function_of, limits_of, own_config
from dynamodb_outbox.sinks.presence import verified

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.codec.envelope import Envelope
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.sinks.arns import Arn
    from dynamodb_outbox.sinks.messages import Attributes

__all__ = ["CODES", "Sqs", "queue_arn"]

_MISSING = frozenset(("QueueDoesNotExist", "NonExistentQueue", "AWS.SimpleQueueService.NonExistentQueue"))
_KINDS = {
    "BatchRequestTooLong": Kind.CONTENT,  # [BC] of one entry; larger requests are tried again in smaller ones
    "InvalidMessageContents": Kind.CONTENT,  # [BC] a character that is not allowed
    "InternalError": Kind.TRANSIENT,
    "InternalFailure": Kind.TRANSIENT,
    "ServiceUnavailable": Kind.TRANSIENT,
    "AccessDenied": Kind.TARGET,
    "AccessDeniedException": Kind.TARGET,
    "InvalidAddress": Kind.TARGET,  # [BC] from here on
    "InvalidParameterValue": Kind.TARGET,
    "InvalidSecurity": Kind.TARGET,
    "KmsAccessDenied": Kind.TARGET,
    "KmsDisabled": Kind.TARGET,
    "KmsInvalidKeyUsage": Kind.TARGET,
    "KmsInvalidState": Kind.TARGET,
    "KmsNotFound": Kind.TARGET,
    "KmsOptInRequired": Kind.TARGET,
    "KMS.AccessDeniedException": Kind.TARGET,  # the older names of the same, which answers still carry
    "KMS.DisabledException": Kind.TARGET,
    "KMS.InvalidKeyUsageException": Kind.TARGET,
    "KMS.InvalidStateException": Kind.TARGET,
    "KMS.NotFoundException": Kind.TARGET,
    "KMS.OptInRequired": Kind.TARGET,
    "MissingParameter": Kind.TARGET,
    "UnsupportedOperation": Kind.TARGET,
}
CODES = Codes(
    MappingProxyType({**_KINDS, **{f"AWS.SimpleQueueService.{code}": kind for code, kind in _KINDS.items()}}),
    throttling=frozenset(("KmsThrottled", "KMS.ThrottlingException", "RequestThrottled", "Throttled")),  # [BC]
    missing=_MISSING,
    too_long="Message must be shorter than",  # [REC] of InvalidParameterValue, which may mean any parameter
)
"""What SQS's codes mean, under both of the names that it has for many of them. "InvalidParameterValue" is the queue's
fault, not the event's, unless it says that the message is too long: what could be wrong with an event was found before,
so it is a setting that queue and sink disagree about."""

_NAME = rf"(?=[^/]{{1,{QUEUE_NAME_LENGTH}}}\Z)[A-Za-z0-9_-]+(?:\.fifo)?"
_URL = re.compile(rf"https?://([^/\s]+)/(?:[^\s?#]*/)?{_NAME}", re.ASCII)
_QUEUE = re.compile(_NAME, re.ASCII)
_REGION = re.compile(
    r"(?:sqs|sqs-fips)\.([a-z]{2,}(?:-[a-z]+)+-[0-9]+)\.(?:amazonaws\.com|api\.aws)(?:\.cn)?"
    r"|([a-z]{2,}(?:-[a-z]+)+-[0-9]+)\.queue\.amazonaws\.com(?:\.cn)?"
)


class Sqs:
    """The queue with this URL or ARN, standard or FIFO.

    client       a boto3 client of "sqs"; made on first use when none is given, in the queue's Region, with one attempt
                 per request, since the relay retries by itself
    envelope     "cloudevents" (a CloudEvents 1.0 object), "raw" (the payload alone), or a function from Event to text
    attributes   a function from Event to message attributes (text by name), added to the sink's own: id, type, source,
                 subject, traceparent. Values that are empty or hold control characters are left out
    fair_queues  of a standard queue: send the key as MessageGroupId; False for an endpoint that refuses it. A FIFO
                 queue always has groups
    timeout_s    the longest that one request of our own client may take, seconds
    limits       what one request takes, 1 MiB together; less where the queue's MaximumMessageSize says so

    Permissions: `sqs:SendMessage`, `sqs:GetQueueUrl` when given an ARN, and `sqs:GetQueueAttributes` for `verify`.

    Raises ConfigurationError for what is no queue's URL or ARN, an unknown envelope, a time-out that is not positive,
    or a client of another service.
    """

    def __init__(
        self,
        queue: str,
        *,
        client: Any = None,
        envelope: str | Envelope = "cloudevents",
        attributes: Attributes | None = None,
        fair_queues: bool = True,
        timeout_s: float = 2.5,
        limits: SinkLimits = SQS,
    ) -> None:
        self._arn, region = _read(text(queue, refusal("Sqs", "queue")))
        function_of("Sqs", "attributes", attributes, "text by name")
        config = own_config("Sqs", timeout_s)
        self.queue = queue
        self.limits = limits_of("Sqs", limits)
        self.fifo = queue.endswith(".fifo")
        self._form = MessageForm(
            "MessageBody",
            SQS,
            self.limits,
            envelope_of("Sqs", envelope),
            attributes,
            grouped=flag(fair_queues, refusal("Sqs", "fair_queues")) or self.fifo,
            fifo=self.fifo,
        )
        self._known_url = queue if self._arn is None else None
        self._client = OwnClient("sqs", config, client, region=region)

    def __repr__(self) -> str:
        return f"Sqs({self.queue!r})"

    @property
    def name(self) -> str:
        """The queue as given: its URL or ARN."""
        return self.queue

    @property
    def request_ms(self) -> int:
        """The longest time that one `publish` may take, in milliseconds: with an ARN, two requests."""
        return self._client.call_ms * (1 if self._arn is None else 2)

    def prepare(self, event: Event) -> Prepared | Fault:
        """Turn an event into an entry of SendMessageBatch, or say why SQS could never accept it. Sends nothing."""
        return self._form.prepare(event)

    def prepare_again(self, event: Event, mark: str) -> Prepared | Fault:
        """Turn an event into an entry whose deduplication id, if it has one, no entry had before: `PreparesAgain`."""
        return self._form.prepare(event, mark)

    def publish(self, entries: Sequence[Any]) -> Outcome:
        """Send prepared entries in one SendMessageBatch request and report on each."""
        try:
            url = self._url()
        except (*TRANSPORT, ConfigurationError) as error:
            return RequestFailed(never_sent(classify(error, CODES)))
        try:
            answer = self._client.get().send_message_batch(QueueUrl=url, Entries=numbered(entries))
        except (*TRANSPORT, ConfigurationError) as error:
            return RequestFailed(classify(error, CODES))
        return outcome(answer, len(entries), CODES)

    def verify(self) -> Verified:
        """Ask SQS (GetQueueAttributes) whether the queue is there; raises nothing. Takes as long as `publish` may.

        The permission is `sqs:GetQueueAttributes`; without it, it cannot be told.
        """
        return verified(self._described, CODES)

    def _described(self) -> object:
        answer = self._client.get().get_queue_attributes(QueueUrl=self._url(), AttributeNames=["QueueArn"])
        return answer.get("Attributes")

    def _url(self) -> str:
        """Return the queue's URL. Threads that come at once may each ask for it; they are told the same."""
        if self._known_url is None and self._arn is not None:
            answer = self._client.get().get_queue_url(
                QueueName=self._arn.resource, QueueOwnerAWSAccountId=self._arn.account
            )
            self._known_url = str(answer["QueueUrl"])
        return str(self._known_url)


def queue_arn(url: str) -> str | None:
    """Return the ARN of a queue with this URL, None for any other text and where the URL does not tell all of it."""
    found = _URL.fullmatch(url)
    host = _REGION.fullmatch(found[1]) if found else None
    account, _, name = url.rpartition("/")
    account = account.rpartition("/")[2]
    if host is None or not (account.isascii() and account.isdigit()):
        return None
    region = host[1] or host[2]
    partition = "aws-cn" if region.startswith("cn-") else "aws-us-gov" if region.startswith("us-gov-") else "aws"
    return f"arn:{partition}:sqs:{region}:{account}:{name}"


def _read(queue: str) -> tuple[Arn | None, str | None]:
    """Return a queue's ARN, when it is one, and the Region that ARN or URL names."""
    arn = arn_of(queue)
    if arn is not None and arn.service == "sqs" and arn.account and _QUEUE.fullmatch(arn.resource):
        return arn, arn.region or None
    url = _URL.fullmatch(queue)
    if url is None:
        raise ConfigurationError(
            f"Sqs({shown(queue)}): neither the URL of a queue, as https://sqs.<Region>.amazonaws.com/<account>/<name>, "
            "nor its ARN."
        )
    host = _REGION.fullmatch(url[1])
    return None, (host[1] or host[2]) if host else None
