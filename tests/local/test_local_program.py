"""`python -m dynamodb_outbox.local`: an engine from a shell, with what was asked for, until it is stopped."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

from dynamodb_outbox.local.__main__ import main
from dynamodb_outbox.local.client import DEFAULT_ACCOUNT, REGION, local_client


@pytest.mark.usefixtures("engine_extra")
def test_it_makes_what_was_asked_for_and_ends_on_sigterm() -> None:
    """The address is printed when everything is there: what goes to the bus or the topic comes out of the queue."""
    wanted = ("--port", "0", "--table", "shop", "--bus", "orders", "--topic", "crm", "--queue", "billing")
    program = subprocess.Popen(
        [sys.executable, "-m", "dynamodb_outbox.local", *wanted],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert program.stdout is not None
        said = program.stdout.readline()
        assert said.endswith(f", account {DEFAULT_ACCOUNT}, Region {REGION}\n")
        url = said.split()[0]
        client: Any = local_client("dynamodb", url)
        table = client.describe_table(TableName="shop")["Table"]
        assert table["StreamSpecification"]["StreamViewType"] == "NEW_AND_OLD_IMAGES"
        entry = {"EventBusName": "orders", "Source": "shop", "DetailType": "placed", "Detail": "{}"}
        local_client("events", url).put_events(Entries=[entry])
        sqs: Any = local_client("sqs", url)
        queue = sqs.get_queue_url(QueueName="billing")["QueueUrl"]
        assert len(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"]) == 1
        local_client("sns", url).publish(TopicArn="arn:aws:sns:us-east-1:000000000000:crm", Message="as it is")
        (message,) = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"]
        assert message["Body"] == "as it is"
        program.send_signal(signal.SIGTERM)
        assert program.wait(20) == 0
    finally:
        program.kill()
        program.communicate()


@pytest.mark.usefixtures("engine_extra")
def test_a_port_that_is_taken_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Not a traceback: the address, and status 1."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["--port", str(port)]) == 1
    assert capsys.readouterr().err.startswith("python -m dynamodb_outbox.local: error: ")
