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
from dynamodb_outbox.arguments import shown
from dynamodb_outbox.errors import ConfigurationError

__all__ = ["LEFT_OUT", "Package", "package"]

LEFT_OUT = frozenset(("cdk.py", "cli", "doctor", "infra", "local", "template_text.py", "testing"))
"""Parts of the library that no function uses."""

_HANDLERS = ("__init__.py", "aws_lambda.py")
"""Without these there is nothing that Lambda could run."""

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
    """Return the package of the library in the folder `root`: of the one that runs, when none is given.

    Raises ConfigurationError for a folder that is none, or is not this library's: one that is imported from a zip has
    no folder, and is to be installed.
    """
    root = root if root is not None else Path(dynamodb_outbox.__file__).parent
    sources = _sources(root)
    if missing := [name for name in _HANDLERS if name not in sources]:
        raise ConfigurationError(
            f"package: {shown(str(root))} has no {' and no '.join(missing)}: the functions' code is packed from a "
            "folder with this library's sources, as pip installs them."
        )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, path in sorted(sources.items()):
            entry = zipfile.ZipInfo(f"{root.name}/{name}", _EARLIEST)
            entry.create_system = 3  # Unix, so that the mode counts
            entry.external_attr = _READABLE
            archive.writestr(entry, path.read_bytes())
    return Package(packed.getvalue())


def _sources(root: Path) -> dict[str, Path]:
    """Return the modules that are packed, by their names in the folder: files that can be imported, and no others."""
    found = {path.relative_to(root): path for path in root.rglob("*.py")}
    return {
        name.as_posix(): path
        for name, path in found.items()
        if name.parts[0] not in LEFT_OUT and all(map(str.isidentifier, name.with_suffix("").parts)) and path.is_file()
    }
