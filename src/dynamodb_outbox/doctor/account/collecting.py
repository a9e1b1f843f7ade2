"""From an account to an inventory: the table first, then what reads its stream, and so on to what is around it.

Answers are put into CloudFormation's words where the API has others. Which of it is the outbox is found by `choosing`,
twice: when the functions are known, to learn where events and alarms go; and at the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.doctor.account.asking import Asking, Clients, NotAnswered, own_clients
from dynamodb_outbox.doctor.account.items import written_by_hand
from dynamodb_outbox.doctor.account.keys import customer_key
from dynamodb_outbox.doctor.account.roles import role_piece
from dynamodb_outbox.doctor.account.surroundings import Surroundings
from dynamodb_outbox.doctor.checks import layouts_of
from dynamodb_outbox.doctor.choosing import FUNCTIONS, MAPPING, SWEEPERS, TABLES, Asked, system_of
from dynamodb_outbox.doctor.functions import reads
from dynamodb_outbox.doctor.inventory import Inventory, NotSeen, Piece, Seen, Unseen, function_name, name_in
from dynamodb_outbox.environment.variables import SWEEP
from dynamodb_outbox.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.doctor.system import System
    from dynamodb_outbox.layout import Layout

__all__ = ["inventory_of"]

_ITEMS = 1000
_NO_ITEMS = Unseen("no items were read: --read-items 100 reads so many")
_STATES = ("State", "StateReason", "LastUpdateStatus", "LastUpdateStatusReason")
"""What a list of functions does not tell of them."""
_RECOVERY = ("ContinuousBackupsDescription", "PointInTimeRecoveryDescription", "PointInTimeRecoveryStatus")


def inventory_of(asked: Asked, *, read_items: int = 0, clients: Clients = own_clients) -> Inventory:
    """Return what there is around the table that was asked for.

    `read_items` items of it are read, 1,000 at most, for the values of their TTL attribute and to count records that
    were written by hand; 0: none. `clients` makes boto3 clients.

    Raises ConfigurationError without a table's name, NotAnswered when there is no such table, or when nobody answers.
    """
    if asked.table is None:
        raise ConfigurationError("the table's name is needed: --table.")
    asking = Asking(clients)
    collector = _Collector(asking, asked)
    count = min(read_items, _ITEMS)
    collector.table(name_in(asked.table), count)
    collector.functions(name_in(asked.table))
    collector.roles()
    surroundings = Surroundings(asking)
    collector.take(surroundings.schedules(collector.sweepers()))
    collector.take(surroundings.alarms())
    if not asking.answers and asking.unanswered is not None:
        raise NotAnswered(f"nobody answered: {asking.unanswered.why}")
    system = system_of(collector.inventory(), asked)
    collector.take(surroundings.of(system, asked))
    collector.items(system, count)
    return collector.inventory()


class _Collector:
    """Keeps what was found: pieces, kinds and ARNs that were not seen."""

    def __init__(self, asking: Asking, asked: Asked) -> None:
        self._asking = asking
        self._asked = asked
        self._pieces: list[Piece] = []
        self._unseen: dict[str, Unseen] = {}
        self._hidden: dict[str, Unseen] = {}

    def inventory(self) -> Inventory:
        """Return what was found so far."""
        return Inventory("account", tuple(self._pieces), self._unseen, self._hidden)

    def take(self, found: tuple[list[Piece], Mapping[str, Unseen]]) -> None:
        """Add pieces, and what was not seen: kinds have two colons, ARNs begin with arn."""
        pieces, hidden = found
        self._pieces += pieces
        for name, why in hidden.items():
            (self._hidden if name.startswith("arn:") else self._unseen)[name] = why

    def table(self, name: str, read_items: int) -> None:
        """Ask for the table. Raises NotAnswered when there is none."""
        answer = self._asking.ask("dynamodb", "DescribeTable", TableName=name)
        if answer is None:
            place = self._asking.place("dynamodb")
            raise NotAnswered(
                f"there is no table {name} in {place}, in the account of these credentials. AWS_REGION and AWS_PROFILE "
                "name others."
            )
        if isinstance(answer, Unseen):
            self._unseen |= dict.fromkeys(TABLES, answer)
            return
        said = answer["Table"]
        ttl = self._asking.ask("dynamodb", "DescribeTimeToLive", TableName=name)
        backups = self._asking.ask("dynamodb", "DescribeContinuousBackups", TableName=name)
        key = (said.get("SSEDescription") or {}).get("KMSMasterKeyArn")
        properties = {
            **said,
            "StreamArn": said.get("LatestStreamArn"),
            "Replicas": [{"Region": each.get("RegionName")} for each in said.get("Replicas") or ()],
            "SSESpecification": {"KMSMasterKeyId": customer_key(self._asking, key)},
            "TimeToLiveSpecification": _ttl(ttl),
            "PointInTimeRecoverySpecification": _recovery(backups),
        }
        properties["TimeToLiveValues"] = self._values(name, properties["TimeToLiveSpecification"], read_items)
        self._pieces.append(Piece(name, TABLES[0], str(said["TableArn"]), properties))

    def _values(self, name: str, ttl: Any, count: int) -> Any:
        if not count:
            return _NO_ITEMS
        if isinstance(ttl, Unseen) or not (ttl and ttl.get("AttributeName")):
            return []
        answer = self._asking.ask(
            "dynamodb",
            "Scan",
            TableName=name,
            Limit=count,
            ProjectionExpression="#ttl",
            ExpressionAttributeNames={"#ttl": ttl["AttributeName"]},
        )
        if answer is None or isinstance(answer, Unseen):
            return answer
        return [each[ttl["AttributeName"]] for each in answer.get("Items") or () if each]

    def items(self, system: System, count: int) -> None:
        """Count records that were written by hand, by the layouts that count, and note that at the table."""
        try:
            counts = [self._by_hand(each, count) for each in layouts_of(system)] if count else [_NO_ITEMS]
        except NotSeen as reason:
            counts = [Unseen(reason.why)]
        hidden = next((each for each in counts if isinstance(each, Unseen)), None)
        found = hidden or sum(each for each in counts if isinstance(each, int))
        self._pieces = [
            replace(each, properties={**each.properties, "WrittenByHand": found}) if each.kind in TABLES else each
            for each in self._pieces
        ]

    def _by_hand(self, layout: Layout, count: int) -> Seen[int]:
        name = name_in(str(self._asked.table))
        answer = self._asking.ask("dynamodb", "Scan", TableName=name, Limit=count, **written_by_hand(layout))
        if answer is None or isinstance(answer, Unseen):
            return answer or Unseen("the table is gone")
        return int(answer["Count"])

    def functions(self, table: str) -> None:
        """Ask for the mappings of the table's streams, their functions, and the ready-made ones."""
        mappings = self._asking.all(
            "lambda", "ListEventSourceMappings", "EventSourceMappings", ("NextMarker", "Marker")
        )
        if isinstance(mappings, Unseen) or mappings is None:
            self._unseen[MAPPING] = mappings or Unseen("there is no answer")
            mappings = []
        ours = [each for each in mappings if f":table/{table}/stream/" in str(each.get("EventSourceArn"))]
        self._pieces += [_mapping(each) for each in ours]
        named = {function_name(str(each["FunctionArn"])) for each in ours}
        wanted = named | {*self._asked.relays, *self._asked.sweepers}
        for name, said in self._known(wanted).items():
            if name in wanted or reads(Piece(name, FUNCTIONS[0], "", said)) is not None:
                self._pieces.append(self._function(said))

    def _known(self, wanted: set[str]) -> dict[str, Mapping[str, Any]]:
        """Return functions by name: all of the account, or those that are wanted where these are not told."""
        listed = self._asking.all("lambda", "ListFunctions", "Functions", ("NextMarker", "Marker"))
        if isinstance(listed, list):
            return {str(each["FunctionName"]): each for each in listed}
        self._unseen[SWEEPERS] = listed or Unseen("there is no answer")
        found = {}
        for name in sorted(wanted):
            answer = self._asking.ask("lambda", "GetFunctionConfiguration", FunctionName=name)
            if isinstance(answer, Unseen):
                self._unseen[FUNCTIONS[0]] = answer
            elif answer is not None:
                found[name] = answer
        return found

    def _function(self, said: Mapping[str, Any]) -> Piece:
        name = str(said["FunctionName"])
        reserved = self._asking.ask("lambda", "GetFunctionConcurrency", FunctionName=name)
        whole = self._asking.ask("lambda", "GetFunctionConfiguration", FunctionName=name)
        environment = said.get("Environment") or {}
        properties: dict[str, Any] = {
            **said,
            **{state: whole if isinstance(whole, Unseen) else (whole or {}).get(state) for state in _STATES},
            "ReservedConcurrentExecutions": reserved
            if reserved is None or isinstance(reserved, Unseen)
            else reserved.get("ReservedConcurrentExecutions"),
            "Environment": {
                "Variables": Unseen("its variables cannot be decrypted")
                if environment.get("Error")
                else environment.get("Variables") or {}
            },
        }
        piece = Piece(name, FUNCTIONS[0], str(said["FunctionArn"]), properties)
        if self._may_sweep(piece):
            policy = self._asking.ask("lambda", "GetPolicy", FunctionName=name)
            properties["Policy"] = policy if policy is None or isinstance(policy, Unseen) else policy.get("Policy")
        return piece

    def _may_sweep(self, piece: Piece) -> bool:
        return reads(piece) == SWEEP or piece.id in self._asked.sweepers

    def roles(self) -> None:
        """Ask for the roles of the functions, and their policies."""
        arns = dict.fromkeys(str(each.properties.get("Role")) for each in self._pieces if each.kind in FUNCTIONS)
        for arn in arns:
            piece = role_piece(self._asking, arn)
            if isinstance(piece, Unseen):
                self._hidden[arn] = piece
            elif piece is not None:
                self._pieces.append(piece)

    def sweepers(self) -> list[Piece]:
        """Return the functions that may be sweepers."""
        return [each for each in self._pieces if each.kind in FUNCTIONS and self._may_sweep(each)]


def _ttl(answer: Any) -> Any:
    if answer is None or isinstance(answer, Unseen):
        return answer
    said = answer.get("TimeToLiveDescription") or {}
    return {
        "Enabled": said.get("TimeToLiveStatus") in ("ENABLED", "ENABLING"),
        "AttributeName": said.get("AttributeName"),
    }


def _recovery(answer: Any) -> Any:
    found = answer
    for name in _RECOVERY:
        if found is None or isinstance(found, Unseen):
            return found
        found = found.get(name)
    return {"PointInTimeRecoveryEnabled": found == "ENABLED"}


def _mapping(said: Mapping[str, Any]) -> Piece:
    error = said.get("FilterCriteriaError")
    hidden = {"FilterCriteria": Unseen(f"the filter cannot be decrypted: {error.get('Message')}")} if error else {}
    id_ = str(said["UUID"])
    properties = {**said, "FunctionName": said["FunctionArn"], **hidden}
    return Piece(id_, MAPPING, str(said.get("EventSourceMappingArn") or id_), properties)
