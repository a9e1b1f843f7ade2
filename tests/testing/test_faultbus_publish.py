"""PutEvents through the fault bus, with real boto3 clients and a tiny endpoint behind it."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError
from faultbus_endpoint import Reply, Seen, anything, bus_before, client, endpoint, event, until

from dynamodb_outbox.testing.faultbus import (
    Delay,
    Duplicate,
    EvidenceUnusable,
    FaultBus,
    FaultPlan,
    Hold,
    NothingHeld,
    Outage,
    Rejection,
    RequestError,
    Reset,
    Unacceptable,
)
from dynamodb_outbox.testing.faultbus.put_events import PutEvents

if TYPE_CHECKING:
    from pathlib import Path


def kinds(bus: FaultBus) -> list[str]:
    """Return the kinds of what went wrong, in order."""
    return [fault.kind for fault in bus.faults]


def codes(answer: dict[str, Any]) -> list[str | None]:
    """Return the error code of each entry of a PutEvents answer."""
    return [entry.get("ErrorCode") for entry in answer["Entries"]]


def test_empty_plan_is_a_faithful_bus() -> None:
    """Without faults the request reaches the upstream byte for byte and its answer comes back."""
    with bus_before() as (bus, behind), client("events", bus.url) as events:
        before = time.time_ns() // 1_000_000
        answer = events.put_events(Entries=[event("1", text="é"), {"Source": "s", "DetailType": "t", "Detail": "{}"}])
    assert [entry["EventId"] for entry in answer["Entries"]] == ["e0", "e1"]
    assert answer["ResponseMetadata"]["RequestId"] == "r-1"
    assert kinds(bus) == []
    first, second = bus.accepted
    assert (first.n, first.request, first.copy, first.destination, first.source) == (1, 1, 0, "orders", "shop")
    assert (first.id, first.detail_type, first.detail) == ("1", "order.placed", event("1", text="é")["Detail"])
    assert (second.n, second.id, second.destination) == (2, None, "default")
    assert before <= first.at_ms <= time.time_ns() // 1_000_000
    (seen,) = behind.seen
    assert seen.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=000000000001/")


def test_rejected_entries_are_aligned_and_only_the_rest_goes_upstream() -> None:
    """A mixed batch is answered entry by entry, in the request's order, from the plan and from the upstream."""
    plan = FaultPlan(unacceptable=(Unacceptable('"no":', "InvalidArgument"),))
    entries = [event("0"), event("1", no=1), event("2", why="upstream-says-no"), event("3", no=1), event("4")]
    with bus_before(plan) as (bus, behind), client("events", bus.url) as events:
        answer = events.put_events(Entries=entries)
    assert codes(answer) == [None, "InvalidArgument", "InternalFailure", "InvalidArgument", None]
    assert answer["FailedEntryCount"] == 3
    assert [entry.get("EventId") for entry in answer["Entries"]] == ["e0", None, None, None, "e2"]
    (seen,) = behind.seen
    assert seen.details == [entries[index]["Detail"] for index in (0, 2, 4)]
    assert [accepted.id for accepted in bus.accepted] == ["0", "4"]
    assert [(fault.kind, fault.what["id"], fault.what["code"]) for fault in bus.faults] == [
        ("entry_unacceptable", "1", "InvalidArgument"),
        ("entry_refused_upstream", "2", "InternalFailure"),
        ("entry_unacceptable", "3", "InvalidArgument"),
    ]


def test_batch_rejected_whole_does_not_reach_the_upstream() -> None:
    """When the plan rejects every entry the answer is still a 200 with each of them in it."""
    plan = FaultPlan(rejections=(Rejection(1.0, codes=("ThrottlingException",), max_consecutive=1),))
    with bus_before(plan) as (bus, behind), client("events", bus.url) as events:
        first = events.put_events(Entries=[event("1"), event("2")])
        assert behind.seen == []
        second = events.put_events(Entries=[event("1"), event("2")])
    assert codes(first) == ["ThrottlingException"] * 2
    assert codes(second) == [None, None]
    assert kinds(bus) == ["entry_rejected"] * 2


def test_retrying_what_failed_gets_everything_accepted_once() -> None:
    """A publisher that reads the results and retries the failed entries loses nothing, on eight threads."""
    plan = FaultPlan(seed=5, rejections=(Rejection(0.3, max_consecutive=3),))

    def publish(events: Any, entries: list[dict[str, str]]) -> None:
        while entries:
            answer = events.put_events(Entries=entries)
            entries = [entry for entry, code in zip(entries, codes(answer), strict=True) if code is not None]

    batches = [[event(f"{n}-{k}") for k in range(10)] for n in range(40)]
    with bus_before(plan) as (bus, behind), client("events", bus.url) as events, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda batch: publish(events, batch), batches))
    assert sorted(accepted.id or "" for accepted in bus.accepted) == sorted(
        f"{n}-{k}" for n in range(40) for k in range(10)
    )
    assert [accepted.n for accepted in bus.accepted] == list(range(1, 401))
    assert sum(len(seen.details) for seen in behind.seen) == 400
    assert 80 < len(bus.faults) < 260
    assert set(kinds(bus)) == {"entry_rejected"}


def test_duplicates_reach_the_upstream_twice() -> None:
    """A doubled entry is handed over again in a request of its own, and both acceptances are on record."""
    plan = FaultPlan(duplicates=(Duplicate(1.0, contains="twice"),))
    with bus_before(plan) as (bus, behind), client("events", bus.url) as events:
        answer = events.put_events(Entries=[event("1"), event("2", how="twice")])
    assert codes(answer) == [None, None]
    assert [len(seen.details) for seen in behind.seen] == [2, 1]
    assert [(accepted.n, accepted.id, accepted.copy) for accepted in bus.accepted] == [
        (1, "1", 0),
        (2, "2", 0),
        (3, "2", 1),
    ]
    assert [(fault.kind, fault.what["id"]) for fault in bus.faults] == [("duplicated", "2")]


@pytest.mark.parametrize("second", ["dropped", "refused", "one refused"])
def test_duplicate_that_fails_changes_nothing_for_the_client(second: str) -> None:
    """The second copy is the plan's affair: when the upstream does not take it, the first acceptance stands."""

    def respond(seen: Seen) -> Any:
        if len(behind.seen) == 1:
            return anything(seen)
        replies: dict[str, Reply] = {"refused": (400, {}, b"{}"), "one refused": (200, {}, b'{"Entries": [{}]}')}
        return replies.get(second)

    plan = FaultPlan(duplicates=(Duplicate(1.0),))
    with endpoint(respond) as behind, FaultBus(behind.url, plan) as bus, client("events", bus.url) as events:
        assert codes(events.put_events(Entries=[event("1")])) == [None]
    assert [accepted.copy for accepted in bus.accepted] == [0]
    assert kinds(bus) == ["duplicate_failed"]


@pytest.mark.parametrize("mode", ["503", "reset"])
def test_outage_refuses_publishing_and_nothing_else(mode: Any) -> None:
    """During an outage no publish request passes and other services go on; afterwards all is as before."""
    with bus_before() as (bus, behind), client("events", bus.url) as events, client("dynamodb", bus.url) as other:
        bus.begin_outage(mode)
        assert bus.state().outage == mode
        with pytest.raises((ClientError, ConnectionClosedError)) as caught:
            events.put_events(Entries=[event("1")])
        if isinstance(caught.value, ClientError):
            assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
            assert caught.value.response["Error"]["Code"] == "ServiceUnavailable"
        else:
            assert mode == "reset"
        assert behind.seen == []
        other.list_tables()
        bus.end_outage()
        assert codes(events.put_events(Entries=[event("1")])) == [None]
    assert kinds(bus) == ["outage"]


def test_hanging_outage_holds_until_the_client_gives_up() -> None:
    """In a hanging outage the client runs into its own time-out; nothing of its request is accepted, then or later."""
    with bus_before() as (bus, behind), client("events", bus.url, timeout_s=0.3) as events:
        bus.begin_outage("hang")
        with pytest.raises(ReadTimeoutError):
            events.put_events(Entries=[event("1")])
        bus.end_outage()
        assert codes(events.put_events(Entries=[event("2")])) == [None]
        assert len(behind.seen) == 1
    assert [accepted.id for accepted in bus.accepted] == ["2"]


def test_hanging_outage_drops_its_clients_at_its_end() -> None:
    """A client that waits longer than the outage loses its connection: its request was never looked at."""
    with bus_before(FaultPlan(outages=(Outage(0, 150, "hang"),))) as (bus, behind), client("events", bus.url) as events:
        with pytest.raises(ConnectionClosedError):
            events.put_events(Entries=[event("1")])
        assert behind.seen == []


def test_closing_the_bus_ends_a_hanging_outage() -> None:
    """A bus can be closed while clients hang."""
    with bus_before() as (bus, _), client("events", bus.url) as events, ThreadPoolExecutor(1) as pool:
        bus.begin_outage("hang")
        call = pool.submit(events.put_events, Entries=[event("1")])
        until(lambda: kinds(bus) == ["outage"])
        bus.close()
        assert isinstance(call.exception(timeout=5), ConnectionClosedError)


def test_whole_request_error_is_what_the_plan_says() -> None:
    """A request error reaches boto3 as an error of that status and code, and nothing is accepted."""
    plan = FaultPlan(errors=(RequestError(1.0, 400, "ThrottlingException", max_consecutive=1),))
    with bus_before(plan) as (bus, behind), client("events", bus.url) as events:
        with pytest.raises(ClientError) as caught:
            events.put_events(Entries=[event("1")])
        assert caught.value.response["Error"]["Code"] == "ThrottlingException"
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
        assert behind.seen == []
        events.put_events(Entries=[event("1")])
    assert [(fault.kind, fault.operation, fault.what["request"]) for fault in bus.faults] == [
        ("request_error", "PutEvents", 1)
    ]


@pytest.mark.parametrize(("when", "taken"), [("before", 0), ("after", 1)])
def test_reset_loses_the_request_or_only_its_answer(when: Any, taken: int) -> None:
    """The client cannot tell the two resets apart; the upstream and the evidence can."""
    plan = FaultPlan(resets=(Reset(1.0, when, max_consecutive=1),))
    with bus_before(plan) as (bus, behind), client("events", bus.url) as events:
        with pytest.raises(ConnectionClosedError):
            events.put_events(Entries=[event("1")])
        assert len(behind.seen) == len(bus.accepted) == taken
        events.put_events(Entries=[event("1")])
    assert [accepted.id for accepted in bus.accepted] == ["1"] * (taken + 1)
    assert kinds(bus) == [f"reset_{when}"]


def test_sdk_retries_over_a_lost_answer_publish_twice() -> None:
    """boto3 retries a lost answer by itself, so the event is accepted twice: the duplicate that consumers must bear."""
    plan = FaultPlan(resets=(Reset(1.0, "after", max_consecutive=1),))
    with bus_before(plan) as (bus, _), client("events", bus.url, attempts=3) as events:
        assert codes(events.put_events(Entries=[event("1")])) == [None]
    assert [accepted.id for accepted in bus.accepted] == ["1", "1"]


def test_delay_comes_before_acceptance() -> None:
    """A delayed request takes at least that long."""
    with bus_before(FaultPlan(delays=(Delay(1.0, 80, 80),))) as (bus, _), client("events", bus.url) as events:
        began = time.monotonic()
        events.put_events(Entries=[event("1")])
        assert time.monotonic() - began >= 0.08
    assert [(fault.kind, fault.what["ms"]) for fault in bus.faults] == [("delayed", 80)]


def test_held_request_is_accepted_visible_and_alone() -> None:
    """A held request is on record as accepted, its client waits, others are served, and a release answers it."""
    plan = FaultPlan(holds=(Hold(nth=2),))
    with bus_before(plan) as (bus, _), client("events", bus.url) as events, ThreadPoolExecutor(1) as pool:
        events.put_events(Entries=[event("1")])
        call = pool.submit(events.put_events, Entries=[event("2"), event("3")])
        held = bus.wait_held()
        assert (held.request, held.operation, held.ids) == (2, "PutEvents", ("2", "3"))
        assert bus.state().held == (held,)
        assert [accepted.id for accepted in bus.accepted] == ["1", "2", "3"]
        assert codes(events.put_events(Entries=[event("4")])) == [None]
        assert not call.done()
        assert bus.release(99) == 0
        assert bus.release(held.request) == 1
        assert codes(call.result(timeout=5)) == [None, None]
        assert bus.state().held == ()
    assert kinds(bus) == ["held", "released"]


def test_held_request_ends_when_its_client_goes_away() -> None:
    """A client that dies while it is held is noticed, and what it published stays accepted."""
    with bus_before() as (bus, _):
        bus.hold_next()
        with socket.create_connection(("127.0.0.1", bus.port)) as raw:
            raw.sendall(raw_put_events(event("1")))
            bus.wait_held()
            assert bus.state().armed == 0
        until(lambda: kinds(bus) == ["held", "client_gone"])
        assert bus.state().held == ()
        with client("events", bus.url) as events:
            events.put_events(Entries=[event("2")])
        assert [accepted.id for accepted in bus.accepted] == ["1", "2"]


def test_waiting_for_a_hold_that_does_not_come() -> None:
    """Waiting ends with an error that says what to look at."""
    with bus_before() as (bus, _), pytest.raises(NothingHeld, match=r"within 0\.05 s"):
        bus.wait_held(0.05)


def test_closing_the_bus_ends_holds() -> None:
    """A held client loses its connection when the bus is closed."""
    with bus_before() as (bus, _), client("events", bus.url) as events, ThreadPoolExecutor(1) as pool:
        bus.hold_next()
        call = pool.submit(events.put_events, Entries=[event("1")])
        bus.wait_held()
        bus.close()
        assert isinstance(call.exception(timeout=5), ConnectionClosedError)


@pytest.mark.parametrize("released", [True, False])
def test_only_accepted_requests_are_held(released: bool) -> None:
    """A request of which the upstream takes nothing is answered, and does not use up a hold."""
    with bus_before(FaultPlan(holds=(Hold(),))) as (bus, _), client("events", bus.url, timeout_s=0.3) as events:
        assert codes(events.put_events(Entries=[event("1", why="upstream-says-no")])) == ["InternalFailure"]
        with ThreadPoolExecutor(1) as pool:
            call = pool.submit(events.put_events, Entries=[event("2")])
            assert bus.wait_held().ids == ("2",)
            if released:
                bus.release()
                assert codes(call.result(timeout=5)) == [None]
            else:
                assert isinstance(call.exception(timeout=5), ReadTimeoutError)


def test_upstream_error_comes_back_as_it_is() -> None:
    """A request that the upstream refuses whole is nobody's acceptance, and its error reaches the client."""
    body = b'{"__type": "ValidationException", "message": "bad"}'
    with (
        endpoint(lambda _: (400, {}, body)) as behind,
        FaultBus(behind.url) as bus,
        client("events", bus.url) as events,
    ):
        with pytest.raises(ClientError, match="ValidationException"):
            events.put_events(Entries=[event("1")])
        assert bus.accepted == ()
        assert [(fault.kind, fault.what["status"]) for fault in bus.faults] == [("upstream_error", 400)]


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"Entries": []}', b'{"Entries": [1]}', b'{"Entries": [{"EventId": "a"}, {"EventId": "b"}]}'],
)
def test_upstream_answer_that_speaks_of_other_entries_accepts_nothing(body: bytes) -> None:
    """A 200 without exactly one result for each entry is a failure of the upstream, not an acceptance."""
    with (
        endpoint(lambda _: (200, {}, body)) as behind,
        FaultBus(behind.url) as bus,
        client("events", bus.url) as events,
    ):
        with pytest.raises(ClientError, match="UpstreamFailed"):
            events.put_events(Entries=[event("1")])
        assert bus.accepted == ()
        assert kinds(bus) == ["upstream_failed"]


def test_result_that_is_neither_accepted_nor_failed_is_not_accepted() -> None:
    """An entry with neither EventId nor ErrorCode was not accepted."""
    reply: Reply = (200, {}, b'{"FailedEntryCount": 0, "Entries": [{}]}')
    with endpoint(lambda _: reply) as behind, FaultBus(behind.url) as bus, client("events", bus.url) as events:
        events.put_events(Entries=[event("1")])
        assert bus.accepted == ()
        assert kinds(bus) == ["entry_refused_upstream"]


def test_lost_upstream_answer_is_not_tried_again() -> None:
    """A request of which the upstream may have acted is never sent twice: that would be an unplanned duplicate."""
    with endpoint(lambda _: None) as behind, FaultBus(behind.url) as bus, client("events", bus.url) as events:
        with pytest.raises(ClientError, match="UpstreamFailed"):
            events.put_events(Entries=[event("1")])
        assert len(behind.seen) == 1
        assert bus.accepted == ()
        assert [(fault.kind, fault.what["sent"]) for fault in bus.faults] == [("upstream_failed", True)]


def test_evidence_is_on_file_before_the_answer(tmp_path: Path) -> None:
    """When a client has its answer, the acceptance and the faults can be read from the files."""
    plan = FaultPlan(unacceptable=(Unacceptable("never"),))
    where = tmp_path / "a" / "b"
    with bus_before(plan, evidence=where) as (bus, _), client("events", bus.url) as events:
        events.put_events(Entries=[event("1", text="é\ud800"), event("2", text="never")])
        (accepted,) = (where / "accepted.jsonl").read_text("utf-8").splitlines()
        (fault,) = (where / "faults.jsonl").read_text("utf-8").splitlines()
    assert json.loads(accepted) == {
        "n": 1,
        "at_ms": bus.accepted[0].at_ms,
        "request": 1,
        "copy": 0,
        "destination": "orders",
        "source": "shop",
        "detail_type": "order.placed",
        "id": "1",
        "key": None,
        "group": None,
        "deduplication_id": None,
        "detail": event("1", text="é\ud800")["Detail"],
    }
    assert json.loads(fault) == {
        "kind": "entry_unacceptable",
        "at_ms": bus.faults[0].at_ms,
        "operation": "PutEvents",
        "what": {"request": 1, "id": "2", "code": "MalformedDetail"},
    }


def test_evidence_of_two_runs_is_not_mixed(tmp_path: Path) -> None:
    """A directory that has evidence is refused, and the evidence in it is left alone."""
    with bus_before(evidence=tmp_path) as (bus, _), client("events", bus.url) as events:
        events.put_events(Entries=[event("1")])
    again = FaultBus("http://127.0.0.1:9", evidence=tmp_path)
    with pytest.raises(EvidenceUnusable, match="another run"):
        again.start()
    assert len((tmp_path / "accepted.jsonl").read_text("utf-8").splitlines()) == 1


def test_evidence_directory_that_is_a_file(tmp_path: Path) -> None:
    """A path that cannot be a directory is an error that names it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(EvidenceUnusable) as caught:
        FaultBus("http://127.0.0.1:9", evidence=tmp_path / "file" / "below").start()
    assert caught.value.directory == str(tmp_path / "file" / "below")


def no_space(_: int, __: bytes) -> int:
    """Be a full disk."""
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(("write", "reason"), [(no_space, "No space left"), (lambda *_: 3, "3 of .* bytes")])
def test_bus_that_cannot_write_evidence_stops_answering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Any, reason: str
) -> None:
    """A full disk must not turn into acceptances that nobody can prove: no answer, and an error at the end."""
    called = threading.Event()
    with endpoint() as behind:
        bus = FaultBus(behind.url, evidence=tmp_path, on_failure=called.set).start()
        monkeypatch.setattr("dynamodb_outbox.process.journal.os.write", write)
        with client("events", bus.url) as events:
            for _ in range(2):
                with pytest.raises(ConnectionClosedError):
                    events.put_events(Entries=[event("1")])
        assert called.is_set()
        assert len(behind.seen) == 1
        with pytest.raises(EvidenceUnusable, match=reason):
            bus.close()
        bus.close()


@pytest.mark.parametrize(
    "detail", ["", "[]", "{", "[" * 100_000, '{"specversion": "1.0"}', '{"id": "1"}', '{"specversion": "1.0", "id": 1}']
)
def test_detail_without_a_cloudevent_id_is_known_by_its_text(detail: str) -> None:
    """An entry that carries no CloudEvent is recognised by a hash of its Detail."""
    body = json.dumps({"Entries": [{"Detail": detail}, {"Detail": detail}, {"Detail": 5}]}).encode()
    batch = PutEvents().parse(body)
    assert batch is not None
    one, two, other = batch.entries
    assert one.id is None
    assert one.identity == two.identity
    assert one.identity.startswith("sha256:")
    assert (other.detail, other.source, other.destination) == ("", None, "default")


def test_request_keeps_what_is_not_an_entry() -> None:
    """A request for some of the entries keeps its other fields and the entries' own fields, known or not."""
    document = {
        "EndpointId": "abc.def",
        "Entries": [{"Detail": "{}", "Time": 1764427868.123}, {"Detail": "[]", "New": [1]}],
    }
    protocol = PutEvents()
    batch = protocol.parse(json.dumps(document).encode())
    assert batch is not None
    assert json.loads(protocol.body(batch, [0, 1])) == document
    assert json.loads(protocol.body(batch, [1])) == {**document, "Entries": document["Entries"][1:]}


def raw_put_events(*entries: dict[str, str]) -> bytes:
    """Return the bytes of a PutEvents request."""
    body = json.dumps({"Entries": list(entries)}).encode()
    head = f"POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: AWSEvents.PutEvents\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
