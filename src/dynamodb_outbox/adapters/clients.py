"""What the adapters check of a client that was passed in."""

from __future__ import annotations

import contextlib
from typing import Any

from botocore.exceptions import BotoCoreError

from dynamodb_outbox.errors import ConfigurationError

__all__ = ["refuse_resource_client"]


def refuse_resource_client(client: Any) -> None:
    """Raise ConfigurationError for the client of a boto3 resource: its hooks would wrap values in wire form once more.

    Told by what the hooks do to such a value; nothing is sent.
    """
    probe = {"TableName": "probe", "Item": {"probe": {"S": "probe"}}}
    model = client.meta.service_model.operation_model("PutItem")
    with contextlib.suppress(BotoCoreError):  # a stub on the client, which knows nothing of this call
        client.meta.events.emit("before-parameter-build.dynamodb.PutItem", params=probe, model=model, context={})
    if probe["Item"] != {"probe": {"S": "probe"}}:
        raise ConfigurationError(
            "client= belongs to boto3.resource('dynamodb'), whose client converts values by itself. "
            "Pass boto3.client('dynamodb')."
        )
