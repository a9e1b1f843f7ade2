"""Amazon SNS: PublishBatch, to standard and FIFO topics.

An event becomes one message: its envelope as the body, and a few attributes that subscriptions can filter by. SNS hands
the message on to subscribers of its own accord, so what it would accept and then drop is never sent: see `messages`.

A FIFO topic keeps the order of each group (the event's key) and delivers an id once within five minutes. Its name ends
in `.fifo`: AWS gives that ending to FIFO topics alone.

PublishBatch answers 200 with a result for each entry, some of which may be failures; the SDK does not retry those.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import flag, refusal, shown, text
from dynamodb_outbox.core.limits import SNS, TOPIC_NAME_LENGTH, SinkLimits
from dynamodb_outbox.core.relay.outcome import Fault, Kind, Outcome, Prepared, RequestFailed, Verified
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.sdk.clients import OwnClient
from dynamodb_outbox.sdk.errors import TRANSPORT
from dynamodb_outbox.sinks.arns import arn_of
from dynamodb_outbox.sinks.failures import Codes, classify
from dynamodb_outbox.sinks.messages import MessageForm, numbered, outcome
from dynamodb_outbox.sinks.options import envelope_of, function_of, limits_of, own_config
from dynamodb_outbox.sinks.presence import verified

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.codec.envelope import Envelope
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.sinks.messages import Attributes

__all__ = ["CODES", "Sns"]

CODES = Codes(
    MappingProxyType(
        {
            "BatchRequestTooLong": Kind.CONTENT,  # [BC] of one entry; larger requests are tried again in smaller ones
            "InternalError": Kind.TRANSIENT,  # [BC]
            "InternalFailure": Kind.TRANSIENT,
            "ServiceUnavailable": Kind.TRANSIENT,
            "AuthorizationError": Kind.TARGET,  # [BC] from here on
            "EndpointDisabled": Kind.TARGET,
            "InvalidParameter": Kind.TARGET,
            "InvalidSecurity": Kind.TARGET,
            "KMSAccessDenied": Kind.TARGET,
            "KMSDisabled": Kind.TARGET,
            "KMSInvalidState": Kind.TARGET,
            "KMSNotFound": Kind.TARGET,
            "KMSOptInRequired": Kind.TARGET,
            "ParameterValueInvalid": Kind.TARGET,
            "PlatformApplicationDisabled": Kind.TARGET,
        }
    ),
    throttling=frozenset(("KMSThrottling", "Throttled")),  # [BC]
    missing=frozenset(("NotFound",)),
    too_long="Message too long",  # [REC] of InvalidParameter, which may mean any parameter
)
"""What SNS's codes mean. "InvalidParameter" is the topic's fault, not the event's, unless it says that it is too long:
what could be wrong with an event was found before, so it is a setting that topic and sink disagree about."""

_TOPIC = re.compile(rf"(?=.{{1,{TOPIC_NAME_LENGTH}}}\Z)[A-Za-z0-9_-]+(?:\.fifo)?", re.ASCII)


class Sns:
    """The topic with this ARN, standard or FIFO.

    client       a boto3 client of "sns"; made on first use when none is given, in the ARN's Region, with one attempt
                 per request, since the relay retries by itself
    envelope     "cloudevents" (a CloudEvents 1.0 object), "raw" (the payload alone), or a function from Event to text
    attributes   a function from Event to message attributes (text by name), added to the sink's own: id, type, source,
                 subject, traceparent. Values that are empty or hold control characters are left out
    fair_queues  of a standard topic: send the key as MessageGroupId too, which SNS hands on to standard queues [BC].
                 A FIFO topic always has groups
    timeout_s    the longest that one request of our own client may take, seconds
    limits       what one request takes, 256 KiB together; more where the topic's MaximumMessageSize says so

    Permissions: `sns:Publish`, and `sns:GetTopicAttributes` for `verify`.

    Raises ConfigurationError for what is no topic's ARN, an unknown envelope, a time-out that is not positive, or a
    client of another service.
    """

    def __init__(
        self,
        arn: str,
        *,
        client: Any = None,
        envelope: str | Envelope = "cloudevents",
        attributes: Attributes | None = None,
        fair_queues: bool = False,
        timeout_s: float = 2.5,
        limits: SinkLimits = SNS,
    ) -> None:
        found = arn_of(text(arn, refusal("Sns", "arn")))
        if found is None or found.service != "sns" or not found.account or not _TOPIC.fullmatch(found.resource):
            raise ConfigurationError(
                f"Sns({shown(arn)}): not the ARN of a topic, as arn:aws:sns:<Region>:<account>:<name>."
            )
        function_of("Sns", "attributes", attributes, "text by name")
        config = own_config("Sns", timeout_s)
        self.arn = arn
        self.limits = limits_of("Sns", limits)
        self.fifo = arn.endswith(".fifo")
        self._form = MessageForm(
            "Message",
            SNS,
            self.limits,
            envelope_of("Sns", envelope),
            attributes,
            grouped=flag(fair_queues, refusal("Sns", "fair_queues")) or self.fifo,
            fifo=self.fifo,
        )
        self._client = OwnClient("sns", config, client, region=found.region)

    def __repr__(self) -> str:
        return f"Sns({self.arn!r})"

    @property
    def name(self) -> str:
        """The topic's ARN."""
        return self.arn

    @property
    def request_ms(self) -> int:
        """The longest time that one request may take, in milliseconds."""
        return self._client.call_ms

    def prepare(self, event: Event) -> Prepared | Fault:
        """Turn an event into an entry of PublishBatch, or say why SNS could never deliver it. Sends nothing."""
        return self._form.prepare(event)

    def prepare_again(self, event: Event, mark: str) -> Prepared | Fault:
        """Turn an event into an entry whose deduplication id, if it has one, no entry had before: `PreparesAgain`."""
        return self._form.prepare(event, mark)

    def publish(self, entries: Sequence[Any]) -> Outcome:
        """Send prepared entries in one PublishBatch request and report on each."""
        try:
            answer = self._client.get().publish_batch(TopicArn=self.arn, PublishBatchRequestEntries=numbered(entries))
        except (*TRANSPORT, ConfigurationError) as error:
            return RequestFailed(classify(error, CODES))
        return outcome(answer, len(entries), CODES)

    def verify(self) -> Verified:
        """Ask SNS (GetTopicAttributes) whether the topic is there; raises nothing.

        The permission is `sns:GetTopicAttributes`; without it, it cannot be told.
        """
        return verified(lambda: self._client.get().get_topic_attributes(TopicArn=self.arn).get("Attributes"), CODES)
