"""Compression of what a record stores: gzip from the standard library, zstd as an extra.

It saves storage and write units of the table, and nothing else: limits of events count uncompressed bytes, and the
relay publishes plain text.

Decompression is bounded before it is done, because a few kilobytes can stand for gigabytes: gzip's by reading no
further than the bound, zstd's by the size that its frame declares, which the decompressor then holds it to. What
follows the first member or frame is refused: it is nothing that a writer put there.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Literal, get_args

from dynamodb_outbox.arguments import shown
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.words import extra

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ENCODINGS", "CompressionFault", "Encoding", "check_encoding", "compress", "decompress"]

Encoding = Literal["gzip", "zstd"]

ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)

_GZIP = zlib.MAX_WBITS | 16  # a gzip member; without a file name, and with a time of 0
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3


class CompressionFault(ValueError):
    """Compressed content cannot be read: the text says why, and reads after the content's name."""


def check_encoding(value: object) -> Encoding | None:
    """Return the encoding that an argument names, None for none.

    Raises ConfigurationError for one that is not known, or whose library is not installed.
    """
    if value is None:
        return None
    for encoding in ENCODINGS:
        if value == encoding:
            if encoding == "zstd":
                _zstandard()
            return encoding
    known = ", ".join(map(repr, ENCODINGS))
    raise ConfigurationError(f"compression is {shown(value)}; one of {known} or None is needed.")


def compress(text: str, encoding: Encoding) -> bytes:
    """Return the UTF-8 of `text`, compressed. Raises ConfigurationError when the library is not installed."""
    content = text.encode("utf-8")
    if encoding == "zstd":
        compressed: bytes = _zstandard().ZstdCompressor(level=_ZSTD_LEVEL).compress(content)
        return compressed
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP)
    return packer.compress(content) + packer.flush()


def decompress(content: bytes, encoding: str, most_bytes: int) -> str:
    """Return the text that was compressed.

    Raises CompressionFault for content that is damaged, gives more than `most_bytes`, is no UTF-8, or has an encoding
    that is not known; ConfigurationError when the library of one that is known is not installed.
    """
    reader = _READERS.get(encoding)
    if reader is None:
        raise CompressionFault(f"has the encoding {encoding[:40]!r}, which this version does not know")
    try:
        return reader(content, most_bytes).decode("utf-8")
    except UnicodeDecodeError:
        raise CompressionFault("is not UTF-8 when decompressed") from None


def _from_gzip(content: bytes, most_bytes: int) -> bytes:
    reader = zlib.decompressobj(_GZIP)
    try:
        found = reader.decompress(content, most_bytes + 1)
    except zlib.error:
        raise CompressionFault("is not gzip") from None
    if len(found) > most_bytes:
        raise _too_large(most_bytes)
    if not reader.eof or reader.unused_data:
        raise CompressionFault("is not one whole gzip member")
    return found


def _from_zstd(content: bytes, most_bytes: int) -> bytes:
    library = _zstandard()
    try:
        declared = library.frame_content_size(content)
        if declared > most_bytes:
            raise _too_large(most_bytes)
        # A frame that declares no size is held to the bound itself; one more byte makes a bound of 0 one, too.
        found: bytes = library.ZstdDecompressor().decompress(
            content, max_output_size=most_bytes + 1, allow_extra_data=False
        )
    except library.ZstdError:
        raise CompressionFault(f"is not one whole zstd frame of at most {most_bytes:,} bytes") from None
    if len(found) > most_bytes:
        raise _too_large(most_bytes)
    return found


_READERS: Mapping[str, Callable[[bytes, int], bytes]] = {"gzip": _from_gzip, "zstd": _from_zstd}


def _too_large(most_bytes: int) -> CompressionFault:
    return CompressionFault(f"has more than {most_bytes:,} bytes when decompressed")


def _zstandard() -> Any:
    try:
        import zstandard  # noqa: PLC0415 -- an extra, and 24 MB that only those load who use it
    except ImportError:
        raise ConfigurationError(f"zstd needs the extra: {extra('zstd')}.") from None
    return zstandard
