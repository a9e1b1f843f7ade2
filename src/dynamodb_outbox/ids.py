"""Identifiers: UUID version 7 (RFC 9562 §5.7), which sort by the time they were made.

Pure: the time and the random bytes are arguments. The bytes must come from the operating system (`os.urandom`), which
stays safe after a fork and after a snapshot of the process is restored.
"""

from __future__ import annotations

__all__ = ["ENTROPY_BYTES", "uuid7"]

ENTROPY_BYTES = 10
"""Random bytes that one identifier takes."""

_MAX_MS = (1 << 48) - 1


def uuid7(unix_ms: int, entropy: bytes) -> str:
    """Return a UUIDv7 as text, from epoch milliseconds (0 to 2**48-1) and `ENTROPY_BYTES` random bytes.

    Raises ValueError when either is out of range.
    """
    if not 0 <= unix_ms <= _MAX_MS:
        raise ValueError(f"unix_ms must be 0 to {_MAX_MS}, not {unix_ms}")
    if len(entropy) != ENTROPY_BYTES:
        raise ValueError(f"{ENTROPY_BYTES} random bytes are needed, not {len(entropy)}")
    bits = int.from_bytes(entropy, "big")
    rand_a = bits >> 68
    rand_b = bits & ((1 << 62) - 1)
    digits = f"{(unix_ms << 80) | (0x7 << 76) | (rand_a << 64) | (0b10 << 62) | rand_b:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
