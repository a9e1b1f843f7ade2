"""Several layouts: the samples of each, and relays that share a table."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from doctor_account import REGION, AnsweringAccount
from doctor_ground import BUS, PAYLOADS, PLACE, World, said
from test_doctor_account import asked_of

from dynamodb_outbox.core.eventsource.filters import compile_filters
from dynamodb_outbox.core.record.place import is_of, stream_filter
from dynamodb_outbox.doctor.inventory import ANY_REGION, Piece
from dynamodb_outbox.doctor.samples import stream_samples
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.promises import Standing

if TYPE_CHECKING:
    from collections.abc import Callable

LAYOUTS = (
    Layout(),
    Layout(own_partition=True),
    Layout(own_partition=True, sk=None, prefix="E#"),
    Layout(placement="table", pk_type="N", select={"kind": "EVENT"}),
    Layout(placement="table", pk_type="B", sk_type="N", select={}),
    Layout(placement="table", select={"pk": {"prefix": "EVENT#"}}),
    Layout(columns={"type": "kind", "id": "event_id", "state": "done"}, payload_format="map"),
    Layout(settle="none"),
)


@pytest.mark.parametrize("layout", LAYOUTS, ids=range(len(LAYOUTS)))
def test_our_own_filter_does_with_the_samples_what_it_should(layout: Layout) -> None:
    """Records pass, and are the layout's own; what is settled or expired does not pass, and other items do not."""
    samples = stream_samples(layout)
    filters = compile_filters(stream_filter(layout))
    assert all(filters.match(each) and is_of(each["dynamodb"]["NewImage"], layout) for each in samples.records)
    assert not any(map(filters.match, (*samples.settled, *samples.expired, *samples.others)))
    assert (samples.others == ()) is (layout.placement == "table")


def two_relays(second: Layout, told: dict[str, Any]) -> World:
    """Return a world with a second relay, for another layout, on the same table."""
    world = World()
    for id_ in ("Relay", "RelayStream"):
        one = world.pieces[id_]
        world.pieces[f"{id_}2"] = Piece(f"{id_}2", one.kind, f"{one.arn}2", json.loads(json.dumps(one.properties)))
    world["Relay2"]["LoggingConfig"] = {"LogGroup": f"/aws/lambda/{world['Relay']['FunctionName']}"}
    world["Relay2"]["FunctionName"] += "2"
    world["Relay2"]["Environment"]["Variables"]["OUTBOX_LAYOUT"] = json.dumps(told)
    world["RelayStream2"]["FunctionName"] += "2"
    world["RelayStream2"]["FilterCriteria"] = {"Filters": [{"Pattern": json.dumps(stream_filter(second))}]}
    for id_, piece in list(world.pieces.items()):
        if piece.kind == "AWS::CloudWatch::Alarm" and not id_.startswith("Sweeper"):
            text = json.dumps(piece.properties).replace("shop-outbox-relay", "shop-outbox-relay2")
            watched = json.loads(text.replace('"RelayStream"', '"RelayStream2"'))
            world.pieces[f"{id_}2"] = Piece(f"{id_}2", piece.kind, f"{piece.arn}2", {**watched, "AlarmName": f"{id_}2"})
    return world


def test_each_relay_is_held_to_its_own_layout() -> None:
    """Two on a table with different prefixes are right; the table has to fit both, and each filter its own."""
    world = two_relays(Layout(prefix="EVENT#"), {"prefix": "EVENT#"})
    assert said(world.report()) == []
    world["RelayStream"]["FilterCriteria"] = world["RelayStream2"]["FilterCriteria"]
    assert set(said(world.report())) == {"relayed-twice", "filter-blocks"}
    world = two_relays(Layout(prefix="EVENT#"), {"prefix": "EVENT#", "ttl": "purge_at", "index": "other-index"})
    assert set(said(world.report())) == {"ttl-attribute", "pending-index"}


OLD = f"arn:aws:dynamodb:{PLACE}:table/shop/stream/old"


@pytest.mark.parametrize(
    "left", [{"State": "Disabled"}, {"EventSourceArn": OLD}, {"State": "Disabled", "BatchSize": 1}]
)
def test_a_mapping_that_was_left_over_is_not_looked_at(left: dict[str, Any]) -> None:
    """It neither relays nor reads, and another one does; where none does it is what there is."""
    world = World()
    one = world.pieces["RelayStream"]
    for number in range(3):
        arn = f"{one.arn}{number}"
        world.pieces[f"Old{number}"] = Piece(f"Old{number}", one.kind, arn, {**one.properties, **left})
    assert said(world.report()) == []
    world["RelayStream"]["Enabled"] = False
    assert {"mapping-disabled", "stream-stale"} & set(said(world.report()))


@pytest.mark.parametrize("left", [{"State": "Disabled"}, {"EventSourceArn": OLD}], ids=["disabled", "stale"])
def test_a_function_that_another_one_replaced_is_not_looked_at(left: dict[str, Any]) -> None:
    """Its mapping relays nothing: to have it made again would make two relays. It is when it was asked for."""
    world = two_relays(Layout(), {})
    world["RelayStream2"].update(left)
    world["Relay2"]["Timeout"] = 1
    for id_ in [each for each in world.pieces if each.endswith("Alarm2")]:
        world.pieces.pop(id_)
    assert said(world.report()) == []
    found = set(said(world.report(replace(PAYLOADS, relays=("Relay", "Relay2")))))
    assert found & {"mapping-disabled", "stream-stale"}
    assert "timeout" in found
    assert "mapping-missing" not in found
    world["RelayStream"]["Enabled"] = False
    assert set(said(world.report())) >= {"mapping-disabled", "timeout"}


def test_a_mapping_of_another_layout_is_not_left_over() -> None:
    """Nobody else relays its records."""
    world = two_relays(Layout(prefix="EVENT#"), {"prefix": "EVENT#"})
    world["RelayStream2"]["Enabled"] = False
    assert set(said(world.report())) == {"mapping-disabled"}


def test_of_several_relays_the_one_that_promises_least_counts() -> None:
    """For each promise: one that keeps no order takes it from all, whichever of them comes first."""
    plain = [each.standing for each in World().report().promises]
    orders: list[list[Standing]] = []
    for relay in ("Relay", "Relay2"):
        world = two_relays(Layout(prefix="EVENT#"), {"prefix": "EVENT#"})
        world[relay]["Environment"]["Variables"]["OUTBOX_ORDERING"] = "none"
        orders.append([each.standing for each in world.report().promises])
    assert orders[0] == orders[1]
    assert orders[0][3] is Standing.NOT_PROMISED
    assert [*orders[0][:3], *orders[0][4:]] == [*plain[:3], *plain[4:]]


IMAGE = {"sk": {"S": [{"prefix": "OUTBOX#"}]}}
BY_REGION: tuple[Callable[[Any], dict[str, Any]], ...] = (
    lambda rule: {"eventName": ["INSERT"], "dynamodb": {"NewImage": {**IMAGE, "region": {"S": [rule]}}}},
    lambda rule: {"eventName": ["INSERT"], "awsRegion": [rule], "dynamodb": {"NewImage": IMAGE}},
)
"""Filters of global tables: by the Region that a record has, or the stream."""


@pytest.mark.parametrize("by", BY_REGION, ids=["record", "stream"])
@pytest.mark.parametrize("rule", ["us-east-1", ANY_REGION, {"prefix": "us-"}, {"anything-but": ["eu-west-1"]}], ids=str)
def test_a_filter_may_name_the_region_that_a_template_is_deployed_to(by: Callable[[Any], Any], rule: Any) -> None:
    """Which is not known: so any; but one, for all records."""
    world = World()
    world["RelayStream"]["FilterCriteria"] = {"Filters": [{"Pattern": json.dumps(by(rule))}]}
    assert said(world.report()) == []
    of_two = [by("us-east-1"), by("us-east-2")]
    for each, kind in zip(of_two, ("Refund", "order.placed"), strict=True):
        each["dynamodb"]["NewImage"] = {**each["dynamodb"]["NewImage"], "type": {"S": [kind]}}
    world["RelayStream"]["FilterCriteria"] = {"Filters": [{"Pattern": json.dumps(each)} for each in of_two]}
    assert said(world.report()) == ["filter-blocks"]


@pytest.mark.parametrize("by", BY_REGION, ids=["record", "stream"])
def test_a_filter_has_to_name_the_region_that_a_stream_is_in(by: Callable[[Any], Any]) -> None:
    """Where that is known."""
    account = AnsweringAccount(BUS)
    (mapping,) = account.of("AWS::Lambda::EventSourceMapping")
    for region, found in ((REGION, []), ("us-east-1", ["filter-blocks"])):
        mapping.told["FilterCriteria"] = {"Filters": [{"Pattern": json.dumps(by(region))}]}
        assert said(asked_of(account)) == found
