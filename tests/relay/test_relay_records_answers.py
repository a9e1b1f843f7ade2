"""Settling and parking, by answers of DynamoDB that no engine gives."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ReadTimeoutError
from botocore.stub import Stubber
from relay_items import AGAIN, LAYOUT, NOW_MS, WHY, pending, row

from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.core.record import moves
from dynamodb_outbox.core.record.moves import Parked, Parking, Settled
from dynamodb_outbox.core.record.waiting import Found
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.layout import Layout


@pytest.fixture
def offline() -> Any:
    """Return a client that never gets as far as a network."""
    return boto3.client(
        "dynamodb",
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        endpoint_url="http://127.0.0.1:1",
        config=Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1}),
    )


def test_each_statement_has_its_own_result(offline: Any) -> None:
    """Passing trouble may be tried again, a changed record is left alone, the rest is reported."""
    codes = [None, "ThrottlingError", "ConditionalCheckFailed", "AccessDenied", "DuplicateItem", "AccessDenied"]
    answer = {"Responses": [{"Error": {"Code": code}} if code else {} for code in codes]}
    with Stubber(offline) as stub:
        stub.add_response("batch_execute_statement", answer)
        settled = DynamoRecordStates(LAYOUT, client=offline).settle("shop", [pending(i) for i in range(6)], NOW_MS)
    assert settled == Settled(done=1, changed=1, again=(1, 4), failed={"AccessDenied": 2})


@pytest.mark.parametrize("error", [{}, {"Message": "?"}, {"Code": "", "Message": "?"}])
def test_an_error_without_a_code_settles_nothing(offline: Any, error: dict[str, str]) -> None:
    """Whatever it is, the statement was not done: the record is counted among those that could not be settled."""
    with Stubber(offline) as stub:
        stub.add_response("batch_execute_statement", {"Responses": [{"Error": error}, {}]})
        settled = DynamoRecordStates(LAYOUT, client=offline).settle("shop", [pending(1), pending(2)], NOW_MS)
    assert settled == Settled(done=1, failed={"NoCode": 1})


def test_every_code_of_a_statement_is_judged(offline: Any) -> None:
    """All of the service's own list [BC], and one that is new: what passes by itself is tried again, nothing else."""
    codes = offline.meta.service_model.shape_for("BatchStatementErrorCodeEnum").enum
    answer = {"Responses": [{"Error": {"Code": code, "Message": "?"}} for code in [*codes, "SomethingNew"]]}
    with Stubber(offline) as stub:
        stub.add_response("batch_execute_statement", answer)
        images = [pending(number) for number in range(len(codes) + 1)]
        settled = DynamoRecordStates(LAYOUT, client=offline).settle("shop", images, NOW_MS)
    again = {codes[position] for position in settled.again}
    assert again == {
        "DuplicateItem", "InternalServerError", "ProvisionedThroughputExceeded", "RequestLimitExceeded",
        "ThrottlingError", "TransactionConflict",
    }  # fmt: skip
    assert (settled.done, settled.changed) == (0, 1)
    failed = {reason.split(":")[0].split(" ")[0] for reason in settled.failed}
    assert failed == {*codes, "SomethingNew"} - again - {"ConditionalCheckFailed"}


def test_two_images_of_one_item_are_one_statement(offline: Any) -> None:
    """A row that was deleted and written again: what the service makes of two is not known; both have its result."""
    nothing = {name: value for name, value in pending(3).items() if name != "ob_pending"} | {"ob_settle": {"S": "none"}}
    images = [row(1), pending(2), nothing, row(1, ob_state={"S": "open"}), row(4), pending(2)]
    statements = [moves.settle("shop", images[position], LAYOUT, now_ms=NOW_MS) for position in (3, 5, 4)]
    answer = {"Responses": [{"Error": {"Code": "ThrottlingError"}}, {"Error": {"Code": "AccessDenied"}}, {}]}
    with Stubber(offline) as stub:
        stub.add_response("batch_execute_statement", answer, {"Statements": statements})
        settled = DynamoRecordStates(LAYOUT, client=offline).settle("shop", images, NOW_MS)
    assert settled == Settled(done=2, again=(0, 3), failed={"AccessDenied": 2})


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ThrottlingException", Settled(done=1, again=(1,))),
        ("AccessDeniedException", Settled(done=1, failed={"AccessDeniedException: said": 1})),
        (None, Settled(done=1, again=(1,))),
    ],
)
def test_what_is_not_settled_is_told_apart_from_what_needs_no_settling(
    offline: Any, code: str | None, expected: Settled
) -> None:
    """Of a request that fails as a whole, and of an answer of the wrong length."""
    nothing = row(1, ob_v={"N": "1"}, ob_settle={"S": "none"})
    with Stubber(offline) as stub:
        if code is None:
            stub.add_response("batch_execute_statement", {"Responses": []})
        else:
            stub.add_client_error("batch_execute_statement", code, "said", 400)
        assert DynamoRecordStates(LAYOUT, client=offline).settle("shop", [nothing, pending(2)], NOW_MS) == expected


def test_where_there_is_nothing_to_settle_nothing_is_sent(offline: Any) -> None:
    """Of records that say so, and of rows by the relay's layout."""
    states = DynamoRecordStates(Layout(settle="none"), client=offline)
    with Stubber(offline):  # which answers nothing
        assert states.settle("shop", [row(1), row(2, ob_v={"N": "1"}, ob_settle={"S": "none"})], NOW_MS) == Settled(2)


def test_of_a_statement_only_what_concerns_the_set_up_is_told_in_words(offline: Any) -> None:
    """Who may not do what, and which table there is not; never words about values."""
    said = [("AccessDenied", "User: x is not authorized"), ("ResourceNotFound", "not found"), ("ValidationError", "5")]
    answer = {"Responses": [{"Error": {"Code": code, "Message": message}} for code, message in said]}
    with Stubber(offline) as stub:
        stub.add_response("batch_execute_statement", answer)
        settled = DynamoRecordStates(LAYOUT, client=offline).settle("shop", [pending(i) for i in range(3)], NOW_MS)
    place = "table 'shop'; Region 'us-east-1', endpoint http://127.0.0.1:1"
    assert settled.failed == {
        "AccessDenied: User: x is not authorized": 1,
        f"ResourceNotFound ({place})": 1,
        "ValidationError": 1,
    }


def test_a_park_into_a_table_that_there_is_not_says_where_it_was_looked_for(offline: Any) -> None:
    """The answer itself names neither the table nor the Region."""
    with Stubber(offline) as stub:
        stub.add_client_error("put_item", "ResourceNotFoundException", "Requested resource not found")
        failure = DynamoRecordStates(LAYOUT, client=offline).park("shop", pending(1), WHY).failure
    place = "table 'shop'; Region 'us-east-1', endpoint http://127.0.0.1:1"
    assert failure == f"ResourceNotFoundException: Requested resource not found ({place})"


def test_an_answer_of_the_wrong_length_settles_nothing_for_sure(offline: Any) -> None:
    """All are tried again: the conditions tell which were settled."""
    with Stubber(offline) as stub:
        stub.add_response("batch_execute_statement", {"Responses": [{}]})
        settled = DynamoRecordStates(LAYOUT, client=offline).settle("shop", [pending(1), pending(2)], NOW_MS)
    assert settled == Settled(again=(0, 1))


@pytest.mark.parametrize(
    ("code", "status", "again"),
    [
        ("ThrottlingException", 400, (0,)),
        ("InternalServerError", 500, (0,)),
        ("SomethingNew", 503, (0,)),
        ("AccessDeniedException", 400, ()),
    ],
)
def test_a_settle_request_that_fails_as_a_whole(offline: Any, code: str, status: int, again: tuple[int, ...]) -> None:
    """Tried again unless the set-up is at fault."""
    with Stubber(offline) as stub:
        stub.add_client_error("batch_execute_statement", code, "said", status)
        settled = DynamoRecordStates(LAYOUT, client=offline).settle("shop", [pending(1)], NOW_MS)
    assert settled == Settled(again=again, failed={} if again else {f"{code}: said": 1})


def test_no_connection_is_tried_again(offline: Any) -> None:
    """Settling later, parking in the next invocation."""
    states = DynamoRecordStates(LAYOUT, client=offline)
    assert states.settle("shop", [pending(1)], NOW_MS) == Settled(again=(0,))
    assert "EndpointConnectionError" in str(states.park("shop", pending(1), WHY))


def test_an_item_is_found_consistently(offline: Any) -> None:
    """By its key attributes alone; one that is gone is empty."""
    states = DynamoRecordStates(LAYOUT, client=offline)
    image = pending(1)
    asked = {"TableName": "shop", "Key": {name: image[name] for name in ("pk", "sk")}, "ConsistentRead": True}
    with Stubber(offline) as stub:
        stub.add_response("get_item", {"Item": image}, asked)
        assert states.find("shop", image) == Found(image)
        stub.add_response("get_item", {}, asked)
        assert states.find("shop", image) == Found({})
        stub.add_client_error("get_item", "AccessDeniedException", "no GetItem", 400)
        assert states.find("shop", image) == Found({}, "AccessDeniedException: no GetItem")
    assert "EndpointConnectionError" in str(states.find("shop", image).failure)


def refuse(stub: Any, operation: str, item: dict[str, Any] | None = None) -> None:
    """Prepare a condition that does not hold, with the item or, as older engines do, without."""
    stub.add_client_error(
        operation,
        "ConditionalCheckFailedException",
        modeled_fields={"Item": item} if item else None,
    )


def test_a_refusal_without_the_item_is_followed_by_a_read(offline: Any) -> None:
    """A consistent one."""
    with Stubber(offline) as stub:
        refuse(stub, "put_item")
        stub.add_response("get_item", {"Item": pending(1) | {"state": {"S": "published"}}})
        assert DynamoRecordStates(LAYOUT, client=offline).park("shop", pending(1), AGAIN) == Parked()
        stub.assert_no_pending_responses()


def test_a_record_that_changes_under_the_park_is_looked_at_again(offline: Any) -> None:
    """Parked for another event, then redriven before this one was added: published by then."""
    parked = pending(1) | {"state": {"S": "parked"}, "parked_events": {"NS": ["7"]}}
    with Stubber(offline) as stub:
        refuse(stub, "put_item", parked)
        refuse(stub, "update_item")
        refuse(stub, "put_item", pending(1) | {"state": {"S": "published"}})
        assert DynamoRecordStates(LAYOUT, client=offline).park("shop", pending(1), AGAIN) == Parked()
        stub.assert_no_pending_responses()


def test_a_record_that_keeps_changing_is_left_to_the_next_invocation(offline: Any) -> None:
    """Deleted and written again each time."""
    with Stubber(offline) as stub:
        for _ in range(3):
            refuse(stub, "put_item")
            stub.add_response("get_item", {})
        assert (
            DynamoRecordStates(LAYOUT, client=offline).park("shop", pending(1), WHY).failure
            == "the record kept changing"
        )


@pytest.mark.parametrize("operation", ["put_item", "update_item"])
def test_a_park_that_is_refused_for_another_reason_has_failed(offline: Any, operation: str) -> None:
    """With that reason."""
    parked = pending(1) | {"state": {"S": "parked"}, "parked_events": {"NS": ["7"]}}
    with Stubber(offline) as stub:
        if operation == "update_item":
            refuse(stub, "put_item", parked)
        stub.add_client_error(operation, "AccessDeniedException", "not you")
        failure = DynamoRecordStates(LAYOUT, client=offline).park("shop", pending(1), WHY)
    assert str(failure.failure).startswith("AccessDeniedException")


def test_our_own_client_is_made_late_and_is_quick_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two attempts, each within a second."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    states = DynamoRecordStates(LAYOUT)
    assert states.request_ms == 2000
    assert states.settle("shop", [pending(1)], NOW_MS).again == (0,)
    assert states._client.get().meta.config.retries["total_max_attempts"] == 2
    assert states.request_ms == 2000


NO_REGION = "no AWS Region is configured: set AWS_REGION (in code, client= does, too)."


def test_without_a_region_settle_and_park_fail_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trying again would not help."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    states = DynamoRecordStates(LAYOUT)
    assert states.settle("shop", [pending(1)], NOW_MS) == Settled(failed={f"NoClient: {NO_REGION}": 1})
    assert "AWS_REGION" in str(states.park("shop", pending(1), WHY))


def test_a_park_that_boto3_refuses_does_not_repeat_the_record(offline: Any) -> None:
    """What went wrong is logged, and values are data."""
    failure = DynamoRecordStates(LAYOUT, client=offline).park("shop", pending(1) | {"n": {"N": 31415926}}, WHY)
    assert failure.failure == "ParamValidationError: Invalid type for parameter Item.n.N"


def test_the_client_of_a_resource_is_refused() -> None:
    """It would wrap values that are in wire form already."""
    resource = boto3.resource("dynamodb", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    with pytest.raises(ConfigurationError, match="resource"):
        DynamoRecordStates(LAYOUT, client=resource.meta.client)


def test_more_events_of_a_record_that_is_parked_apart_are_added_there(offline: Any) -> None:
    """The item that stands for it may be redriven in between: then nothing is left to do."""
    key = {"pk": {"S": "ORDER#1"}, "sk": {"S": "OUTBOX#1#parked"}}
    marks = {"state": {"S": "parked"}, "parked_events": {"NS": ["1"]}}
    apart = {**key, **marks, "ob_v": {"N": "1"}, "parked_sk": {"S": "OUTBOX#1"}}
    why = Parking("Bad", "never", NOW_MS, (2,))
    for answers, expected in (((True,), Parked()), ((False, True), Parked())):
        with Stubber(offline) as stub:
            stub.add_client_error("put_item", "ValidationException", "Item size has exceeded the maximum allowed size")
            for added in answers:
                stub.add_response("get_item", {"Item": pending(1)})
                stub.add_response("get_item", {"Item": apart})
                if added:
                    stub.add_response("update_item", {})
                else:
                    refuse(stub, "update_item")
            assert DynamoRecordStates(LAYOUT, client=offline).park("shop", pending(1), why) == expected
            stub.assert_no_pending_responses()


def test_a_record_that_cannot_be_parked_apart_either_has_failed(offline: Any) -> None:
    """With the reason of the second refusal, or because it kept changing."""
    for last in ("ValidationException", "ConditionalCheckFailedException"):
        with Stubber(offline) as stub:
            stub.add_client_error("put_item", "ValidationException", "Item size")
            for _ in range(1 if last == "ValidationException" else 3):
                stub.add_response("get_item", {"Item": pending(1)})
                stub.add_response("get_item", {})
                stub.add_response("get_item", {})
                stub.add_response("update_item", {})
                stub.add_client_error("put_item", last, modeled_fields={"Item": pending(1)} if last[0] == "C" else None)
            parked = DynamoRecordStates(LAYOUT, client=offline).park("shop", pending(1), WHY)
        assert parked.failure is not None
        assert parked.failure.startswith(("ValidationException", "the record kept changing"))


def test_a_record_that_is_published_before_it_is_parked_apart_keeps_its_ttl(offline: Any) -> None:
    """The TTL is taken from the record that was seen; one that changed is looked at again."""
    with Stubber(offline) as stub:
        stub.add_client_error("put_item", "ValidationException", "Item size")
        stub.add_response("get_item", {"Item": pending(1)})
        stub.add_response("get_item", {})
        stub.add_response("get_item", {})
        refuse(stub, "update_item")
        stub.add_response("get_item", {"Item": pending(1) | {"state": {"S": "published"}}})
        assert DynamoRecordStates(LAYOUT, client=offline).park("shop", pending(1), AGAIN) == Parked()
        stub.assert_no_pending_responses()


def test_a_record_with_no_key_left_for_what_stands_for_it_has_failed(offline: Any) -> None:
    """Nothing of somebody else's is overwritten, or taken for it."""
    with Stubber(offline) as stub:
        stub.add_client_error("put_item", "ValidationException", "Item size")
        stub.add_response("get_item", {"Item": pending(1)})
        stub.add_response("get_item", {"Item": row(7, parked_sk={"S": "OUTBOX#1"})})
        stub.add_response("get_item", {"Item": row(8)})
        parked = DynamoRecordStates(LAYOUT, client=offline).park("shop", pending(1), WHY)
    assert str(parked.failure).startswith("both keys")
    assert not parked.lost


@pytest.mark.parametrize(
    ("code", "status", "lost"),
    [
        ("ThrottlingException", 400, False),
        ("ThrottlingException", 503, False),
        ("ProvisionedThroughputExceededException", 400, False),
        ("TransactionConflictException", 400, False),
        ("AccessDeniedException", 400, False),
        ("RequestTimeout", 408, True),
        ("InternalServerError", 500, True),
        ("InternalServerError", 400, True),
        ("SomethingNew", 502, True),
    ],
)
def test_a_failed_park_says_whether_the_record_may_be_parked(offline: Any, code: str, status: int, lost: bool) -> None:
    """One that was turned away is not, and costs nothing of the park limit."""
    with Stubber(offline) as stub:
        stub.add_client_error("put_item", code, "said", status)
        parked = DynamoRecordStates(LAYOUT, client=offline).park("shop", pending(1), WHY)
    assert parked == Parked(failure=f"{code}: said", lost=lost)


def test_a_park_that_reached_nobody_is_not_lost_and_one_without_an_answer_is(offline: Any) -> None:
    """A connection that never came about carried nothing."""
    assert not DynamoRecordStates(LAYOUT, client=offline).park("shop", pending(1), WHY).lost

    def cut_off(**_: Any) -> None:
        raise ReadTimeoutError(endpoint_url="http://127.0.0.1:1")

    offline.meta.events.register("before-send.dynamodb.PutItem", cut_off)
    assert DynamoRecordStates(LAYOUT, client=offline).park("shop", pending(1), WHY).lost
