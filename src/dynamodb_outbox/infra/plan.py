"""From what a user says of a deployment to everything that there will be: one tuple of resources.

The renderings have no other source. What is made, and how it is set, is decided here, once.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.limits import ARCHIVE_NAME_LENGTH
from dynamodb_outbox.core.record.place import stream_filter
from dynamodb_outbox.core.record.table import table_of
from dynamodb_outbox.infra.alarms import alarms, dashboard
from dynamodb_outbox.infra.policy import relay_statements, sweeper_statements
from dynamodb_outbox.infra.references import Attribute, Value
from dynamodb_outbox.infra.resources import (
    RECORD_AGE_S,
    Archive,
    Bucket,
    Bus,
    ExistingTable,
    Function,
    LogGroup,
    Resource,
    Role,
    Schedule,
    StreamMapping,
    Table,
    Topic,
)
from dynamodb_outbox.sinks.arns import arn_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.infra.deployment import Deployment

__all__ = ["KEPT_DAYS", "UNORDERED_RETRIES", "outputs_of", "resources_of"]

KEPT_DAYS = 90
"""For how long a bucket keeps what somebody may still have to redrive or replay."""

UNORDERED_RETRIES = 100
"""How often what fails is tried again where no order is kept, and so nothing has to wait for it."""

_SWEEPER_TIMEOUT_S = 120
_OUTPUTS = (
    Attribute("Table", "name"),
    Attribute("Relay", "name"),
    Attribute("RelayStream", "id"),
    Attribute("Sweeper", "name"),
    Attribute("GivenUp", "name"),
)


def resources_of(deployment: Deployment) -> tuple[Resource, ...]:
    """Return all that a deployment is made of; each resource after those that it refers to."""
    notify: Value = deployment.notify if arn_of(deployment.notify) else Attribute("AlarmTopic", "arn")
    on_failure: Value = deployment.on_failure or Attribute("GivenUp", "arn")
    watched = alarms(deployment, notify)
    return (
        _table(deployment),
        *_bus(deployment),
        *([] if deployment.on_failure else [Bucket(id="GivenUp", days=KEPT_DAYS, kms_key=deployment.kms_key)]),
        *_relay(deployment, on_failure),
        *_sweeper(deployment),
        *([Topic(id="AlarmTopic", name=f"{deployment.prefix}-alarms", email=deployment.notify)]
          if notify != deployment.notify else []),
        *watched,
        dashboard(deployment, watched),
    )  # fmt: skip


def outputs_of(resources: Sequence[Resource]) -> Mapping[str, Attribute]:
    """Return what others may want to know of what was made: attributes, each by the id of its resource."""
    ids = {each.id for each in resources}
    return {each.resource: each for each in _OUTPUTS if each.resource in ids}


def _table(deployment: Deployment) -> Table | ExistingTable:
    if deployment.existing_table:
        return ExistingTable(id="Table", name=deployment.table)
    return Table(
        id="Table",
        name=deployment.table,
        needs=table_of(deployment.layout),
        stream_view="NEW_IMAGE",
        kms_key=deployment.kms_key,
    )


def _bus(deployment: Deployment) -> tuple[Resource, ...]:
    found: list[Resource] = []
    if deployment.bus is None:
        return ()
    bus: Value = deployment.bus.arn
    if deployment.new_bus:
        found.append(Bus(id="Bus", name=deployment.bus.name))
        bus = Attribute("Bus", "arn")
    if deployment.archived_days:
        found.append(
            Archive(id="Archive", name=_name_of_archive(deployment.prefix), bus=bus, days=deployment.archived_days)
        )
    return tuple(found)


def _name(deployment: Deployment, function: str) -> str:
    return f"{deployment.prefix}-{function.lower()}"


def _log(deployment: Deployment, function: str) -> LogGroup:
    name = f"/aws/lambda/{_name(deployment, function)}"
    return LogGroup(id=f"{function}Log", name=name, days=deployment.log_days)


def _function(deployment: Deployment, id_: str, **own: Any) -> Function:
    """Return a function with what both have in common; `own` are its further arguments."""
    return Function(
        id=id_,
        name=_name(deployment, id_),
        role=f"{id_}Role",
        log=f"{id_}Log",
        runtime=deployment.runtime,
        architecture=deployment.architecture,
        memory_mb=deployment.memory_mb,
        environment=deployment.variables(),
        **own,
    )


def _name_of_archive(prefix: str) -> str:
    """Return a name that another prefix does not have; where it is too long a part of it is a hash."""
    name = f"{prefix}-archive"
    if len(name) <= ARCHIVE_NAME_LENGTH:
        return name
    end = f"-{hashlib.sha256(prefix.encode()).hexdigest()[:8]}-archive"
    return prefix[: ARCHIVE_NAME_LENGTH - len(end)] + end


def _relay(deployment: Deployment, on_failure: Value) -> tuple[Resource, ...]:
    log = _log(deployment, "Relay")
    return (
        log,
        Role(id="RelayRole", policy="relay", statements=relay_statements(deployment, log.name, on_failure)),
        _function(
            deployment,
            "Relay",
            describes="Relays the events of an outbox from its table's stream",
            handler="dynamodb_outbox.aws_lambda.relay_handler",
            timeout_s=deployment.timeout_s,
            reserved=deployment.reserved,
        ),
        StreamMapping(
            id="RelayStream",
            name="Stream",
            function="Relay",
            stream=Attribute("Table", "stream_arn"),
            filters=(json.dumps(stream_filter(deployment.layout)),),
            batch_size=deployment.batch_size,
            parallelization=deployment.parallelization,
            retries=-1 if deployment.ordered else UNORDERED_RETRIES,
            record_age_s=RECORD_AGE_S,
            on_failure=on_failure,
            on_failure_kind=deployment.on_failure_kind,
        ),
    )


def _sweeper(deployment: Deployment) -> tuple[Resource, ...]:
    log = _log(deployment, "Sweeper")
    return (
        log,
        Role(id="SweeperRole", policy="sweeper", statements=sweeper_statements(deployment, log.name)),
        _function(
            deployment,
            "Sweeper",
            describes="Publishes the events of an outbox that the stream missed",
            handler="dynamodb_outbox.aws_lambda.sweep_handler",
            timeout_s=_SWEEPER_TIMEOUT_S,
            reserved=None if deployment.reserved is None else 1,
            retries=0,
            event_age_s=deployment.sweep_minutes * 60,
        ),
        Schedule(id="SweeperSchedule", name="Schedule", function="Sweeper", minutes=deployment.sweep_minutes),
    )
