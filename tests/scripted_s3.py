"""A client of S3 that is scripted: objects in a dict, and failures on demand."""

from __future__ import annotations

import base64
import functools
import hashlib
from io import BytesIO
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError


@functools.cache
def real_s3() -> Any:
    """Return a client that is never called; what it says of itself is used."""
    return boto3.session.Session().client(
        "s3",
        region_name="eu-west-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        config=Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1}),
    )


class ScriptedS3:
    """Keeps what it is given, checks the hash as S3 does, and raises the next of `failures` first."""

    def __init__(self, *failures: BaseException | None) -> None:
        self.meta = real_s3().meta
        self.failures = list(failures)
        self.objects: dict[tuple[str, str], bytes] = {}
        self.puts: list[dict[str, Any]] = []
        self.gets: list[dict[str, Any]] = []
        self.watched: list[dict[str, Any]] = []
        """Requests to the table, of which `sent_before` counts those sent before each put."""
        self.sent_before: list[int] = []

    def put_object(self, **request: Any) -> dict[str, Any]:
        """Store an object."""
        self.puts.append(request)
        self.sent_before.append(len(self.watched))
        self._fail()
        assert base64.b64decode(request["ChecksumSHA256"]) == hashlib.sha256(request["Body"]).digest()
        self.objects[request["Bucket"], request["Key"]] = request["Body"]
        return {}

    def get_object(self, **request: Any) -> dict[str, Any]:
        """Return an object."""
        self.gets.append(request)
        self._fail()
        content = self.objects.get((request["Bucket"], request["Key"]))
        if content is None:
            raise s3_error("NoSuchKey", 404)
        return {"Body": BytesIO(content)}

    def _fail(self) -> None:
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure


def s3_error(code: str, status: int) -> ClientError:
    """Return boto3's error for an answer of S3 that is no success."""
    return ClientError(
        {"Error": {"Code": code, "Message": "said so"}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutObject"
    )
