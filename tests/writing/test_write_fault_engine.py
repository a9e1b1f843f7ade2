"""A stated part of the fault matrix against an engine: tokens, conditions and settling are real there, losses are not.

The whole product is run on the model server (`test_write_fault_model`). On the engine a combination takes milliseconds,
so two cuts through it are run: each fate at each of four attempts with a quiet gap, and each fate at the first two
attempts with all that can happen in the gap between them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ReadTimeoutError
from fault_matrix import CALLS, Combination, check, check_last, combinations
from write_scripted import cancelled
from write_world import TABLE, FakeClock, create_table

from dynamodb_outbox import Layout, Outbox
from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.core.codec.values import serialize_item
from dynamodb_outbox.core.record.place import is_record, keys_of
from dynamodb_outbox.errors import OutboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from conftest import Account
    from dynamodb_outbox import Receipt
    from dynamodb_outbox.transaction import Transaction

pytestmark = pytest.mark.usefixtures("uncovered")

LAYOUTS = {
    "item": Layout(),
    "own partition, no sort key": Layout(own_partition=True, sk=None),
    "mark": Layout(settle="mark"),
    "delete": Layout(settle="delete"),
    "none": Layout(settle="none"),
}
"""The second has evidence and guards under keys of another form: `pk` alone. The others settle otherwise."""
COUNTS = {
    ("bare", "item"): 750,
    ("record", "item"): 1_050,
    ("guard", "item"): 1_400,
    ("record", "own partition, no sort key"): 425,
    ("guard", "own partition, no sort key"): 775,
    ("record", "mark"): 425,
    ("record", "delete"): 425,
    ("record", "none"): 425,
}
THREADS = 3


def short(layout: Layout) -> Layout:
    """Return the layout with what it keeps kept for a minute."""
    return replace(layout, published_for=timedelta(minutes=1), guard_for=timedelta(minutes=1))


@dataclass
class GapClock(FakeClock):
    """A clock whose pauses are where the gap may be."""

    pause: Callable[[], None] = field(default=lambda: None)

    def sleep_ms(self, duration_ms: int) -> None:
        """Sleep, and let happen what happens meanwhile."""
        super().sleep_ms(duration_ms)
        self.pause()


class Faulty:
    """A client through which one combination's transaction is sent; it knows whether it was committed."""

    def __init__(self, real: Any, case: Combination, pk: str, layout: Layout) -> None:
        self.real = real
        self.meta = real.meta
        self.case = case
        self.pk = pk
        self.layout = short(layout) if case.evidence_short else layout
        self.clock = GapClock(pause=self.pass_gap)
        self.commits = 0
        self.twins = 0
        self.attempts = 0
        self.disturbed = False
        self.guard: Mapping[str, Any] = {}
        self.records: list[Mapping[str, Any]] = []

    def transact_write_items(self, **request: Any) -> Any:
        """Do to the next attempt what its fate says."""
        self.pass_gap()
        fate = dict(enumerate(self.case.fates)).get(self.attempts, "ok")
        self.attempts += 1
        puts = [member["Put"]["Item"] for member in request["TransactItems"] if "Put" in member]
        self.guard = puts[-1]
        self.records = [item for item in puts if is_record(item, self.layout)]
        if fate == "conflict":
            raise cancelled("TransactionConflict", *["None"] * (len(request["TransactItems"]) - 1))
        if fate == "throttle":
            error = {"Code": "ThrottlingException", "Message": "x"}
            raise ClientError(
                {"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400, "RetryAttempts": 0}}, "TransactWriteItems"
            )
        if fate == "before":
            raise ReadTimeoutError(endpoint_url="before")
        if self.disturbed and self.case.token == "expired":
            request["ClientRequestToken"] = (
                f"{request['ClientRequestToken'][:35]}~"  # what was sent under it is forgotten
            )
        try:
            answer = self.real.transact_write_items(**request)
        except ClientError:
            if fate == "after":
                raise ReadTimeoutError(endpoint_url="after") from None
            raise
        self.commits = 1
        if fate == "after":
            raise ReadTimeoutError(endpoint_url="after")
        return answer

    def get_item(self, **request: Any) -> Any:
        """Read."""
        self.pass_gap()
        return self.real.get_item(**request)

    def pass_gap(self) -> None:
        """Let happen what happens after attempt `gap`, once."""
        case = self.case
        if self.disturbed or self.attempts < case.gap:
            return
        self.disturbed = True
        self.clock.pass_ms(case.pause_ms)
        self._disturb_own()
        once = serialize_item(key_of(self.layout, self.pk, "ONCE"))
        if case.foreign == "takes":
            self.real.put_item(TableName=TABLE, Item={**once, "by": {"S": "another"}})
        elif case.foreign == "frees":
            self.real.delete_item(TableName=TABLE, Key=once)
        elif case.foreign == "twin":
            twin = fill(Outbox(TABLE, source="s", client=self.real, layout=self.layout), self.case, self.pk)
            verdict = verdict_of(twin)
            self.twins = int(not isinstance(verdict, OutboxError) and not verdict.replayed)

    def _disturb_own(self) -> None:
        if self.case.own == "forgotten":
            self._delete(self.guard)
        elif self.case.own in ("settled", "deleted"):
            for image in filter(self._is_there, self.records):
                if self.case.own == "deleted":
                    self._delete(image)
                else:
                    states = DynamoRecordStates(self.layout, client=self.real)
                    assert states.settle(TABLE, [image], self.clock.now_ms()).done == 1

    def _delete(self, item: Mapping[str, Any]) -> None:
        self.real.delete_item(TableName=TABLE, Key=keys_of(item, self.layout.keys))

    def _is_there(self, image: Mapping[str, Any]) -> bool:
        found = self.real.get_item(TableName=TABLE, Key=keys_of(image, self.layout.keys), ConsistentRead=True)
        return "Item" in found


def key_of(layout: Layout, pk: str, name: str) -> dict[str, str]:
    """Return the key of one of the combination's items."""
    return {"pk": f"{name}#{pk}"} if layout.sk is None else {"pk": pk, "sk": name}


def fill(outbox: Outbox, case: Combination, pk: str) -> Transaction:
    """Return the transaction of a combination: an increment that must happen once, and a put under a condition."""
    tx = outbox.transaction(idempotency_key=pk if case.kind == "guard" else None)
    tx.update(key_of(outbox.layout, pk, "COUNTER"), add={"n": 1})
    tx.put(key_of(outbox.layout, pk, "ONCE"), if_absent=True)
    if case.kind != "bare":
        tx.emit("counted", {}, key=pk)
    return tx


def run(client: Any, case: Combination, pk: str, layout: Layout) -> tuple[int, Counter[str]]:
    """Run one combination to its end, checking each verdict; return how often the counter must have counted."""
    faulty = Faulty(client, case, pk, layout)
    outbox = Outbox(TABLE, source="s", client=faulty, clock=faulty.clock, layout=faulty.layout)
    tx = fill(outbox, case, pk)
    check(verdict := verdict_of(tx), case, faulty.commits)
    for _ in range(CALLS - 1):
        if not (isinstance(verdict, OutboxError) and verdict.retryable):
            break
        check(verdict := verdict_of(tx), case, faulty.commits)
    check_last(verdict, case)
    how = type(verdict).__name__ if isinstance(verdict, OutboxError) else "committed"
    return faulty.commits + faulty.twins, Counter({"combinations": 1, "disturbed": int(faulty.disturbed), how: 1})


def verdict_of(tx: Transaction) -> Receipt | OutboxError:
    """Call commit() once."""
    try:
        return tx.commit()
    except OutboxError as error:
        return error


def part(kind: str, settle: str, *, whole: bool) -> Iterator[Combination]:
    """Yield the two cuts through the matrix; of all layouts but the first, the one that looks at evidence."""
    if whole:
        yield from (case for case in combinations(kind, gaps=(1,), settle=settle) if case.quiet)
    yield from (case for case in combinations(kind, gaps=(1,), attempts=2, settle=settle) if not case.quiet)


def counters(client: Any) -> dict[str, int]:
    """Return what each combination's counter counted, by partition."""
    pages = client.get_paginator("scan").paginate(TableName=TABLE, ConsistentRead=True)
    items = itertools.chain.from_iterable(page["Items"] for page in pages)
    return {item["pk"]["S"].removeprefix("COUNTER#"): int(item["n"]["N"]) for item in items if "n" in item}


@pytest.mark.parametrize(
    ("kind", "where"),
    [(kind, "item") for kind in ("bare", "record", "guard")]
    + [(kind, "own partition, no sort key") for kind in ("record", "guard")]
    + [("record", settle) for settle in ("mark", "delete", "none")],
)
def test_a_part_of_the_matrix(
    engine: Account, kind: str, where: str, record_testsuite_property: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever happens to the attempts and between them: never two commits, as many as verdicts say, true verdicts."""
    client = engine.client("dynamodb", config=Config(retries={"total_max_attempts": 1}))
    layout = LAYOUTS[where]
    create_table(client, layout=layout)
    cases = {f"{kind}#{number}": case for number, case in enumerate(part(kind, layout.settle, whole=where == "item"))}
    with ThreadPoolExecutor(THREADS) as pool:
        ended = list(pool.map(lambda each: run(client, each[1], each[0], layout), cases.items()))
    expected = {pk: count for pk, (count, _) in zip(cases, ended, strict=True) if count}
    assert counters(client) == expected
    total = sum((each for _, each in ended), Counter[str]())
    record_testsuite_property(f"fault_matrix_engine_{kind}_{where}", total["combinations"])
    with capsys.disabled():
        print(f"\nfault matrix, engine, {kind}, {where}: {dict(total)}")  # noqa: T201 -- the count is what is to be shown
    assert total["combinations"] == COUNTS[kind, where]
