"""SNS PublishBatch: the query protocol, a form on the way in, XML on the way out, results by the entries' Ids.

A form has the fields of entry n as `PublishBatchRequestEntries.member.n.…`. They are kept as they are, in their order
and known or not, so that a request for some of the entries is the same one with those renumbered.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from dynamodb_outbox.testing.faultbus import by_id
from dynamodb_outbox.testing.faultbus.exchange import Answer
from dynamodb_outbox.testing.faultbus.protocol import Batch, Entry, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from dynamodb_outbox.testing.faultbus.exchange import Request

__all__ = ["PublishBatch"]

_ENTRY_FIELD = re.compile(r"PublishBatchRequestEntries\.member\.([0-9]{1,6})\.(.+)", re.DOTALL)
_NAMESPACE = "http://sns.amazonaws.com/doc/2010-03-31/"
_HEADERS = (("Content-Type", "text/xml"),)
_REQUEST_ID = "00000000-0000-0000-0000-000000000000"
_FORM = "application/x-www-form-urlencoded"
_SERVER_ERROR = 500


class PublishBatch:
    """`BatchProtocol` of PublishBatch."""

    @property
    def operation(self) -> str:
        """`PublishBatch`."""
        return "PublishBatch"

    def matches(self, request: Request) -> bool:
        """Whether the request is a form with this action."""
        return _is_form(request) and request.operation == "PublishBatch"

    def asked(self, request: Request) -> str | None:
        """Return the topic of a GetTopicAttributes."""
        if not _is_form(request) or request.operation != "GetTopicAttributes":
            return None
        return dict(_fields(request.body)).get("TopicArn")

    def parse(self, body: bytes) -> Batch | None:
        """Return the entries in the order of their numbers, None unless the Ids are distinct."""
        members: dict[int, dict[str, str]] = {}
        others: dict[str, str] = {}
        for name, value in _fields(body):
            found = _ENTRY_FIELD.fullmatch(name)
            if found is None:
                others[name] = value
            else:
                members.setdefault(int(found[1]), {})[found[2]] = value
        raws = [members[number] for number in sorted(members)]
        entries = by_id.entries_of(raws, others.get("TopicArn", ""), "Message")
        return None if entries is None else Batch(entries, others)

    def body(self, batch: Batch, indexes: Sequence[int]) -> bytes:
        """Return the form with only these entries, numbered from 1."""
        fields = list(batch.document.items())
        for number, index in enumerate(indexes, 1):
            prefix = f"PublishBatchRequestEntries.member.{number}."
            fields += [(prefix + name, value) for name, value in batch.entries[index].raw.items()]
        return urlencode(fields, errors="surrogateescape").encode()

    def verdicts(self, body: bytes, entries: Sequence[Entry]) -> tuple[Verdict, ...] | None:
        """Read `Successful` and `Failed`."""
        try:
            root = ET.fromstring(body)  # noqa: S314 - the answer of the endpoint that the user names
        except ET.ParseError:
            return None
        return by_id.verdicts(_members(root, "Successful"), _members(root, "Failed"), entries)

    def rejection(self, entry: Entry, code: str, *, sender_fault: bool) -> Verdict:
        """Return an entry of `Failed`."""
        return by_id.rejection(entry, code, sender_fault=sender_fault)

    def swallowed(self, entry: Entry) -> Verdict | None:  # noqa: ARG002 - the same for all
        """Return None: a topic that is not there is an error of the whole request."""
        return None

    def answer(self, verdicts: Sequence[Verdict]) -> Answer:
        """Return the 200 answer."""
        lists = "".join(
            _element(name, "".join(_element("member", _texts(one)) for one in members))
            for name, members in by_id.split(verdicts).items()
        )
        metadata = _element("ResponseMetadata", _element("RequestId", _REQUEST_ID))
        return _xml(200, "PublishBatchResponse", _element("PublishBatchResult", lists) + metadata)

    def error(self, status: int, code: str, message: str) -> Answer:
        """Return an error of the query protocol."""
        whose = "Receiver" if status >= _SERVER_ERROR else "Sender"
        said = _element("Error", _texts({"Type": whose, "Code": code, "Message": message}))
        return _xml(status, "ErrorResponse", said + _element("RequestId", _REQUEST_ID))

    def not_found(self, destination: str) -> Answer:  # noqa: ARG002 - AWS does not name it
        """Return the answer to any request for a topic that is not there."""
        return self.error(404, "NotFound", "Topic does not exist")


def _is_form(request: Request) -> bool:
    return request.header("content-type").startswith(_FORM)


def _fields(body: bytes) -> list[tuple[str, str]]:
    return parse_qsl(body.decode("latin-1"), keep_blank_values=True, errors="surrogateescape")


def _members(root: ET.Element, name: str) -> list[dict[str, Any]]:
    """Return the members of a list as their fields' texts, whatever the namespace is."""
    found = root.iterfind(f"{{*}}PublishBatchResult/{{*}}{name}/{{*}}member")
    return [{field.tag.rpartition("}")[2]: field.text or "" for field in member} for member in found]


def _texts(fields: Mapping[str, Any]) -> str:
    said = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
    return "".join(_element(name, escape(value)) for name, value in said.items())


def _element(name: str, content: str) -> str:
    return f"<{name}>{content}</{name}>"


def _xml(status: int, root: str, content: str) -> Answer:
    document = f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="{_NAMESPACE}">{content}</{root}>'
    return Answer(status, _HEADERS, document.encode("utf-8", "replace"))
