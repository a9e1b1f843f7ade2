r"""The local event source for a queue: what Lambda does between SQS and a function, on this machine.

Messages are received, handed to the function as Lambda's SQS event, and deleted when the function is done with them.
A message that is not deleted comes back after the queue's visibility time-out, so nothing has to be remembered here:
dying at any point delivers messages again and loses none. Partial answers are read as for streams, the identifier being
the message id. Why an invocation failed is a warning on standard error, each reason once.

    python -m dynamodb_outbox.local.queue --endpoint http://127.0.0.1:4566 --account 000000000001 --queue invoices \
        --handler shop.billing:lambda_handler --deliveries deliveries.jsonl
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dynamodb_outbox.adapters.system import SystemClock
from dynamodb_outbox.core.consuming.messages import lambda_record
from dynamodb_outbox.core.eventsource.answers import Answer, FunctionFailed, Reported, Responded, reported_failures
from dynamodb_outbox.core.limits import RECEIVE_MESSAGES
from dynamodb_outbox.errors import ConfigurationError, QueueRefused, QueueUnavailable
from dynamodb_outbox.local.client import REGION, local_client
from dynamodb_outbox.local.command_line import check_loads, common_arguments, function_process, run_until_stopped
from dynamodb_outbox.local.complaints import Complaints
from dynamodb_outbox.process.journal import Journal
from dynamodb_outbox.sdk.errors import TRANSPORT, may_pass, said

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from dynamodb_outbox.local.function import Function
    from dynamodb_outbox.ports import Clock
    from dynamodb_outbox.process.stop import StopFlag

__all__ = ["QueueSource", "main"]

_log = logging.getLogger(__name__)

_WAIT_S = 1
_UNAVAILABLE_PAUSE_S = 0.5


class SqsClient(Protocol):
    """What is used of boto3's `sqs` client."""

    def receive_message(self, **request: Any) -> Any:
        """ReceiveMessage."""
        ...

    def delete_message_batch(self, **request: Any) -> Any:
        """DeleteMessageBatch."""
        ...


@dataclass
class QueueSource:
    """Drives `function` from the queue at `url` until `stop` is set.

    batch_size                   messages of one invocation, 1 to 10 (one ReceiveMessage)
    report_batch_item_failures   read `batchItemFailures` from the answer (FunctionResponseTypes)
    deliveries                   gets an entry for each message before it is handed over: messageId, body, received_ms
    journal                      gets an entry for each thing that happens

    Raises ConfigurationError for another batch size.
    """

    client: SqsClient
    url: str
    arn: str
    function: Function
    stop: StopFlag
    batch_size: int = RECEIVE_MESSAGES
    report_batch_item_failures: bool = True
    region: str = REGION
    deliveries: Journal = field(default_factory=lambda: Journal(None))
    journal: Journal = field(default_factory=lambda: Journal(None))
    clock: Clock = field(default_factory=SystemClock)
    _outage: bool = False
    _complaints: Complaints = field(default_factory=Complaints)

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= RECEIVE_MESSAGES:
            raise ConfigurationError(f"QueueSource(batch_size={self.batch_size}): 1 to {RECEIVE_MESSAGES}.")

    def run(self) -> None:
        """Receive and invoke until stopped. A queue that cannot be reached is tried again for ever.

        Raises QueueRefused, and what the function's `invoke` raises.
        """
        self._say("started", pid=os.getpid(), queue=self.url)
        while not self.stop.is_set():
            self._step_or_wait()
        self._say("stopped")

    def _step_or_wait(self) -> None:
        try:
            self.step()
        except QueueUnavailable as error:
            if not self._outage:
                _log.warning("%s; trying again until it can", error)
                self._say("unavailable", reason=error.reason)
            self._outage = True
            self.stop.wait(_UNAVAILABLE_PAUSE_S)
        else:
            self._outage = False

    def step(self) -> int:
        """Receive one batch and see it through; return its size. Raises QueueRefused, QueueUnavailable."""
        answer = self._call(
            self.client.receive_message,
            MaxNumberOfMessages=self.batch_size,
            WaitTimeSeconds=_WAIT_S,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        messages = answer.get("Messages", [])
        if not messages:
            return 0
        for message in messages:
            self.deliveries.write(messageId=message["MessageId"], body=message["Body"], received_ms=self.clock.now_ms())
        event = {"Records": [lambda_record(message, self.arn, self.region) for message in messages]}
        reported = self._judge(self.function.invoke(event), [message["MessageId"] for message in messages])
        self._say("answered", messages=len(messages), failed=len(reported.failed), whole_batch=reported.whole)
        if reported.whole:
            self._complaints.failed(reported.whole)
        else:
            self._delete([message for message in messages if message["MessageId"] not in reported.failed])
        return len(messages)

    def _judge(self, answer: Answer, message_ids: list[str]) -> Reported:
        if isinstance(answer, FunctionFailed):
            return Reported(whole=f"{answer.kind}: {answer.message}")
        if not isinstance(answer, Responded):
            return Reported(whole="throttled")
        if not self.report_batch_item_failures:
            return Reported()
        return reported_failures(answer.payload, frozenset(message_ids))

    def _delete(self, messages: list[dict[str, Any]]) -> None:
        if not messages:
            return
        entries = [
            {"Id": str(place), "ReceiptHandle": message["ReceiptHandle"]} for place, message in enumerate(messages)
        ]
        answer = self._call(self.client.delete_message_batch, Entries=entries)
        for failure in answer.get("Failed", []):
            # Not tried again: the message comes back by itself, which is what "at least once" means.
            _log.warning("a message was not deleted and will come again: %s", failure.get("Code"))
            self._say("not_deleted", messageId=messages[int(failure["Id"])]["MessageId"], code=failure.get("Code"))

    def _call(self, operation: Any, **request: Any) -> Any:
        return _called(self.url, operation, QueueUrl=self.url, **request)

    def _say(self, event: str, **facts: Any) -> None:
        self.journal.write(event=event, at_ms=self.clock.now_ms(), **facts)


def main(argv: Sequence[str] | None = None) -> int:
    """Run as a program; return its exit status: 0 when it was asked to stop."""
    options = _parser().parse_args(argv)
    return run_until_stopped(options, lambda stop: _run(options, stop))


def _run(options: argparse.Namespace, stop: StopFlag) -> None:
    sqs = local_client("sqs", options.endpoint, account=options.account, region=options.region)
    url, arn = _find(sqs, options.queue)
    with (
        function_process(options) as function,
        Journal(options.log) as journal,
        Journal(options.deliveries) as deliveries,
    ):
        source = QueueSource(
            client=sqs,
            url=url,
            arn=arn,
            function=function,
            stop=stop,
            batch_size=options.batch_size,
            report_batch_item_failures=not options.ignore_batch_item_failures,
            region=options.region,
            deliveries=deliveries,
            journal=journal,
        )
        check_loads(function)
        source.run()


def _find(sqs: Any, queue: str) -> tuple[str, str]:
    url = _called(queue, sqs.get_queue_url, QueueName=queue).get("QueueUrl")
    if url is None:
        raise QueueUnavailable("the answer to GetQueueUrl has no QueueUrl")
    answer = _called(queue, sqs.get_queue_attributes, QueueUrl=url, AttributeNames=["QueueArn"])
    if "QueueArn" not in answer.get("Attributes", {}):
        raise QueueUnavailable("the answer to GetQueueAttributes has no QueueArn")
    return str(url), str(answer["Attributes"]["QueueArn"])


def _called(queue: str, operation: Any, **request: Any) -> Any:
    try:
        return operation(**request)
    except TRANSPORT as error:
        what = said(error)
        if may_pass(error):
            raise QueueUnavailable(str(what)) from error
        raise QueueRefused(queue, what.code, what.message) from error


def _parser() -> argparse.ArgumentParser:
    parser = common_arguments("dynamodb_outbox.local.queue", "Run a function on an SQS queue, as Lambda does.")
    parser.add_argument("--queue", required=True, help="its name")
    parser.add_argument("--batch-size", type=int, default=RECEIVE_MESSAGES, metavar="N", help="1 to %(default)s")
    parser.add_argument("--ignore-batch-item-failures", action="store_true")
    parser.add_argument("--deliveries", type=Path, metavar="FILE", help="append a JSON line for each message received")
    return parser


if __name__ == "__main__":
    sys.exit(main())
