"""Objects of an on-failure destination in S3: listed and read, never changed.

They are small enough to be read whole: an invocation has 6 MB of records at most, which the document holds as text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from botocore.config import Config

from dynamodb_outbox.arguments import shown
from dynamodb_outbox.errors import BucketUnavailable, ConfigurationError, InvalidMessage
from dynamodb_outbox.sdk.clients import OwnClient
from dynamodb_outbox.sdk.errors import TRANSPORT, may_pass, said

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FailureObjects"]

_URI = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*))?", re.ASCII | re.DOTALL)
_CONFIG = Config(connect_timeout=2, read_timeout=20, retries={"total_max_attempts": 3, "mode": "standard"})


class FailureObjects:
    """The objects whose URI begins with `uri` (`s3://bucket/beginning`); `client` is a boto3 client of "s3".

    Permissions: `s3:ListBucket`, `s3:GetObject`, and `kms:Decrypt` where a key encrypts. Raises ConfigurationError for
    what is no such URI.
    """

    def __init__(self, uri: str, client: Any = None) -> None:
        found = _URI.fullmatch(uri)
        if found is None:
            raise ConfigurationError(f"{shown(uri)} is no URI of objects in S3, as s3://bucket/aws/lambda/ is.")
        self._uri = uri
        self._bucket, self._prefix = found[1], found[2] or ""
        self._client = OwnClient("s3", _CONFIG, client)

    def names(self) -> Iterator[str]:
        """Yield the keys of all objects, in the order of their names. Raises BucketUnavailable."""
        after: dict[str, str] = {}
        while True:
            try:
                page = self._client.get().list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, **after)
            except TRANSPORT as error:
                raise BucketUnavailable(self._uri, str(said(error)), retryable=may_pass(error)) from error
            yield from (str(found["Key"]) for found in page.get("Contents", ()))
            if not (token := page.get("NextContinuationToken")):
                return
            after = {"ContinuationToken": token}

    def text(self, name: str) -> str:
        """Return what an object holds. Raises BucketUnavailable; InvalidMessage for what is no text."""
        try:
            with self._client.get().get_object(Bucket=self._bucket, Key=name)["Body"] as body:
                content: bytes = body.read()
        except TRANSPORT as error:
            raise BucketUnavailable(self.uri_of(name), str(said(error)), retryable=may_pass(error)) from error
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:  # to publish it with other characters would settle another event
            raise InvalidMessage(self.uri_of(name), f"it is no UTF-8 (byte {error.start}).") from None

    def uri_of(self, name: str) -> str:
        """Return the URI of an object."""
        return f"s3://{self._bucket}/{name}"
