"""The code of the ready-made functions as a zip for Lambda: this library, less what runs on a developer's machine.

It is pure Python and holds no other package: boto3 is in Lambda's runtimes. The same version gives the same bytes, on
any machine: names are sorted, times and modes are fixed, and nothing is compressed (compressors differ, and Lambda's
limit is a hundred times as much). So a package has changed when its hash has.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import dynamodb_outbox

__all__ = ["LEFT_OUT", "Package", "package"]

LEFT_OUT = frozenset(("cdk.py", "cli", "doctor", "infra", "local", "template_text.py", "testing"))
"""Parts of the library that no function uses."""

_EARLIEST = (1980, 1, 1, 0, 0, 0)  # that a zip can tell
_READABLE = 0o100644 << 16  # by everybody: Lambda runs code as a user of its own


@dataclass(frozen=True)
class Package:
    """A package: its bytes, and the SHA-256 of them in hex."""

    content: bytes

    @property
    def sha256(self) -> str:
        """What tells one package from another."""
        return hashlib.sha256(self.content).hexdigest()


def package(root: Path | None = None) -> Package:
    """Return the package of the library in the folder `root`: of the one that runs, when none is given."""
    root = root if root is not None else Path(dynamodb_outbox.__file__).parent
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(_sources(root), key=lambda each: each.relative_to(root).as_posix()):
            entry = zipfile.ZipInfo(f"{root.name}/{path.relative_to(root).as_posix()}", _EARLIEST)
            entry.create_system = 3  # Unix, so that the mode counts
            entry.external_attr = _READABLE
            archive.writestr(entry, path.read_bytes())
    return Package(packed.getvalue())


def _sources(root: Path) -> list[Path]:
    return [path for path in root.rglob("*.py") if path.relative_to(root).parts[0] not in LEFT_OUT]
