"""The `PayloadStore` port over S3: `ClaimCheck`, which users make, for writers and consumers alike.

An object is stored before the transaction that refers to it is sent, and is never deleted here. What is left behind,
by a process that died in between or a transaction that was refused, costs its storage and nothing else; a lifecycle
rule on the prefix removes it, along with the data of events that everybody is done with. Such a rule must leave objects
longer than any message or record can refer to them: queue, dead-letter queue, parked records and replays together.
90 days are a good start.

Both calls may be repeated, so a client of our own leaves retries to the SDK. S3 checks the SHA-256 of what it is sent;
what it gives back is checked by the reader (`core.codec.claim`).
"""

from __future__ import annotations

import base64
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import ClientError

from dynamodb_outbox.arguments import shown, text, whole
from dynamodb_outbox.core.codec.claim import ClaimRule
from dynamodb_outbox.core.limits import EVENTBRIDGE, S3_PUT_BYTES
from dynamodb_outbox.errors import ConfigurationError, PayloadMissing, PayloadUnavailable, UploadFailed
from dynamodb_outbox.sdk.clients import OwnClient
from dynamodb_outbox.sdk.errors import TRANSPORT, may_pass, said

if TYPE_CHECKING:
    from dynamodb_outbox.core.codec.claim import Claim
    from dynamodb_outbox.event import DataRef

__all__ = ["ClaimCheck"]

_OWN_CONFIG = Config(
    connect_timeout=2, read_timeout=10, retries={"total_max_attempts": 3, "mode": "standard"}, max_pool_connections=50
)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_PREFIX = re.compile(r"[A-Za-z0-9!_.*'()/-]{1,512}", re.ASCII)  # what S3 calls safe: the same in a key and in a URI
_NO_OBJECT = frozenset(("NoSuchKey", "404"))


class ClaimCheck:
    """The place in S3 for the data of large events. Safe for use by several threads.

    bucket           name of the bucket, or alias of an access point
    prefix           keys of the objects start with it: 1 to 512 letters, digits and `!_.*'()/-`. Objects are
                     `<prefix><event id>`
    threshold_bytes  an event whose published form, uncompressed and counted as EventBridge counts an entry, has more
                     bytes is claimed. The default leaves room in 256 KB for what buses and queues wrap around it
    max_bytes        the most that the data of one event may have, for the writer and for the reader, who holds it in
                     memory. At most 5 GB
    client           a boto3 client of "s3"; left out, one is made on first use: 3 attempts, 2 s to connect, 10 s to
                     answer
    kms_key          a KMS key (id, ARN or alias) that encrypts the objects; the bucket's own setting unless given

    A writer needs `s3:PutObject` (and `kms:GenerateDataKey`), a consumer `s3:GetObject` (and `kms:Decrypt`). Without
    `s3:ListBucket` S3 answers 403 for an object that is not there, and a consumer cannot tell the two apart.

    Raises ConfigurationError for arguments that cannot work.
    """

    def __init__(
        self,
        bucket: str,
        *,
        prefix: str = "outbox/",
        threshold_bytes: int = 200_000,
        max_bytes: int = 64 * 1024 * 1024,
        client: Any = None,
        kms_key: str | None = None,
    ) -> None:
        if not _BUCKET.fullmatch(text(bucket, partial(_unfit, "bucket"))):
            raise _unfit("bucket", f"is {shown(bucket)}: neither a bucket's name nor the alias of an access point.")
        if not _PREFIX.fullmatch(text(prefix, partial(_unfit, "prefix"))):
            raise _unfit("prefix", f'is {shown(prefix)}; 1 to 512 letters, digits and "!_.*\'()/-" are needed.')
        self.rule = ClaimRule(
            bucket=str.__str__(bucket),
            prefix=str.__str__(prefix),
            threshold_bytes=whole(
                threshold_bytes, partial(_unfit, "threshold_bytes"), least=1, most=EVENTBRIDGE.entry_bytes
            ),
            max_bytes=whole(max_bytes, partial(_unfit, "max_bytes"), least=1, most=S3_PUT_BYTES),
        )
        key = None if kms_key is None else text(kms_key, partial(_unfit, "kms_key"))
        self._encryption = {} if key is None else {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
        self._client = OwnClient("s3", _OWN_CONFIG, client)

    def __repr__(self) -> str:
        return f"ClaimCheck({self.rule.bucket!r}, prefix={self.rule.prefix!r})"

    def store(self, claim: Claim) -> None:
        """Store the data of a claim; storing it again changes nothing. Raises UploadFailed, ConfigurationError."""
        digest = base64.b64encode(bytes.fromhex(claim.reference.sha256)).decode("ascii")
        try:
            self._client.get().put_object(
                Bucket=self.rule.bucket,
                Key=claim.key,
                Body=claim.content,
                ContentType="application/json",
                ChecksumSHA256=digest,
                **self._encryption,
            )
        except TRANSPORT as error:
            raise UploadFailed(claim.reference.uri, str(said(error)), retryable=may_pass(error)) from error

    def load(self, reference: DataRef) -> bytes:
        """Return the bytes that a reference leads to, not verified.

        Raises PayloadMissing, PayloadUnavailable (also for more than `max_bytes`, and for a place that is not this
        one), ConfigurationError.
        """
        key, most = self.rule.key_of(reference), self.rule.max_bytes
        try:
            body = self._client.get().get_object(Bucket=self.rule.bucket, Key=key)["Body"]
            with body:
                content: bytes = body.read(most + 1)
        except TRANSPORT as error:
            if isinstance(error, ClientError) and said(error).code in _NO_OBJECT:
                raise PayloadMissing(reference.uri) from error
            raise PayloadUnavailable(reference.uri, str(said(error)), retryable=may_pass(error)) from error
        if len(content) > most:
            reason = f"it has more than the {most:,} bytes that this ClaimCheck takes. Raise max_bytes if it may."
            raise PayloadUnavailable(reference.uri, reason)
        return content


def _unfit(argument: str, reason: str) -> ConfigurationError:
    return ConfigurationError(f"ClaimCheck: {argument} {reason}")
