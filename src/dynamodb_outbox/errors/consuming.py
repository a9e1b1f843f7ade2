"""What a consumer's function raises to say what becomes of an event, and errors of the queue that events come from."""

from __future__ import annotations

from dynamodb_outbox.errors.root import OutboxError

__all__ = ["QueueRefused", "QueueUnavailable", "Reject", "RejectionUnpublished", "RetryLater", "Skip"]


class Skip(OutboxError):
    """Raised by a consumer's function: this event is none of its business, and is acknowledged.

    Nothing is written, and nothing is remembered: a copy that comes later is given to the function again. (A function
    that adds nothing and returns is remembered.) `reason` is logged, so it should hold no data.
    """

    def __init__(self, reason: object = "") -> None:
        self.reason = reason
        super().__init__(reason or "the event is skipped")


class RetryLater(OutboxError):
    """Raised by a consumer's function: not now. Nothing is written, and the event goes back to its source.

    When it comes again is the source's to say: a queue's visibility time-out, a stream's retries. It is logged as what
    was to be expected, without a traceback. `reason` is logged, so it should hold no data.
    """

    retryable = True

    def __init__(self, reason: object = "") -> None:
        self.reason = reason
        super().__init__(reason or "the event is to be tried again later")


class Reject(OutboxError):
    """Raised by a consumer's function: this event can never be applied. Nothing is written.

    Where the consumer has a sink for such events (`rejected=`) it is published there, and then acknowledged. Where it
    has none, the event goes back to its source, whose own limit of attempts has the last word. `reason` is logged, and
    published with the event, so it should hold no data: its text, 1,000 characters of it at most, for it may be an
    exception, too.
    """

    def __init__(self, reason: object = "") -> None:
        self.reason = reason
        super().__init__(reason or "the event is rejected")


class RejectionUnpublished(OutboxError):
    """A rejected event could not be published to the sink for such events: it goes back to its source.

    `sink` is the sink's name, `reason` what it said; `retryable` says whether it may accept the event later.
    """

    def __init__(self, sink: str, reason: str, *, retryable: bool) -> None:
        self.sink = sink
        self.reason = reason
        self.retryable = retryable
        super().__init__(
            f"a rejected event could not be published to {sink} ({reason}). It goes back to its source, and is offered "
            "again when it comes back."
        )


class QueueRefused(OutboxError):
    """The queue does not exist, or may not be read: `code` is AWS's."""

    def __init__(self, queue: str, code: str, reason: str) -> None:
        self.queue = queue
        self.code = code
        self.reason = reason
        told = f"{code}: {reason}".rstrip(". ")
        advice = " Create the queue, or correct its name." if "Exist" in code else ""
        super().__init__(f"queue {queue}: {told}.{advice}")


class QueueUnavailable(OutboxError):
    """The queue gave no answer. The same call may be made again."""

    retryable = True

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the queue cannot be reached at the moment: {reason}")
