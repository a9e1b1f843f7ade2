"""The package: the same bytes each time, and all that a handler needs but boto3."""

from __future__ import annotations

import ast
import json
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from bare import run_bare

import dynamodb_outbox
from dynamodb_outbox.cli import main
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.infra.package import LEFT_OUT, package

ROOT = Path(dynamodb_outbox.__file__).parent
HANDLERS = """
before = set(sys.modules)
import dynamodb_outbox.aws_lambda as ready
from dynamodb_outbox import Inbox, Outbox
assert "outbox.zip" in ready.__file__, ready.__file__
assert callable(ready.relay_handler)
variables = {"OUTBOX_SINK": "arn:aws:sqs:eu-west-1:123456789012:orders", "OUTBOX_TABLE": "shop"}
ready.relay_from(variables)
ready.sweeper_from(variables)
packages = {name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
print(sorted(name for name in packages if not name.startswith("__")))
"""


def copy_of(tmp_path: Path) -> Path:
    """Return a copy of the library, written in another order, by other hands, with what lies about."""
    for path in sorted(ROOT.rglob("*.py"), reverse=True):
        target = tmp_path / "dynamodb_outbox" / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        target.chmod(0o600)
    (tmp_path / "dynamodb_outbox/core/__pycache__").mkdir()
    (tmp_path / "dynamodb_outbox/core/__pycache__/limits.cpython-311.pyc").write_bytes(b"anything")
    return tmp_path / "dynamodb_outbox"


def test_the_same_sources_are_the_same_bytes(tmp_path: Path) -> None:
    """Whoever builds it, wherever: times, modes and order on the disk do not count."""
    made = package()
    assert made == package(copy_of(tmp_path))
    (tmp_path / "dynamodb_outbox/ids.py").write_text("changed = True\n")
    assert package(tmp_path / "dynamodb_outbox").sha256 != made.sha256


def test_it_holds_the_library_less_what_no_function_uses() -> None:
    """Plain sources, which everybody may read, and nothing but them."""
    with zipfile.ZipFile(BytesIO(package().content)) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
        assert {each.external_attr >> 16 for each in archive.infolist()} == {0o100644}
    assert all(name.endswith(".py") and name.startswith("dynamodb_outbox/") for name in names)
    tops = {name.split("/")[1] for name in names}
    assert not tops & LEFT_OUT
    assert {"aws_lambda.py", "relay", "core", "sinks"} <= tops


def test_nothing_in_it_imports_what_is_left_out() -> None:
    """Neither at the top of a module nor inside of a function."""
    gone = {f"dynamodb_outbox.{name.removesuffix('.py')}" for name in LEFT_OUT}
    with zipfile.ZipFile(BytesIO(package().content)) as archive:
        for name in archive.namelist():
            for node in ast.walk(ast.parse(archive.read(name))):
                told = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                told += [each.name for each in node.names] if isinstance(node, ast.Import) else []
                assert not [each for each in told if any(f"{each}.".startswith(f"{one}.") for one in gone)], name


def test_the_handlers_load_from_it_with_boto3_alone(tmp_path: Path) -> None:
    """In an interpreter that sees the standard library, boto3 with what boto3 needs, and the zip."""
    printed = run_bare(tmp_path, package().content, HANDLERS)
    assert set(ast.literal_eval(printed)) <= {
        "boto3", "botocore", "jmespath", "s3transfer", "dateutil", "six", "urllib3", "dynamodb_outbox",
    }  # fmt: skip


def test_the_command_writes_it_and_says_how_large_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For people, and for programs."""
    where = tmp_path / "code.zip"
    assert main(["package", "--output", str(where)]) == 0
    made = package()
    assert where.read_bytes() == made.content
    assert capsys.readouterr().out == f"{where}: {len(made.content):,} bytes, sha256 {made.sha256}\n"
    assert main(["package", "--output", str(where), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "file": str(where),
        "bytes": len(made.content),
        "sha256": made.sha256,
    }


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a status that says that nothing was made."""
    assert main(["package", "--output", str(tmp_path / "none/code.zip")]) == 3
    assert "none/code.zip" in capsys.readouterr().err


def test_what_lies_about_is_not_packed(tmp_path: Path) -> None:
    """An editor's lock, which leads nowhere; a folder that is called like a module; copies that nobody can import."""
    root = copy_of(tmp_path)
    (root / "core/.#limits.py").symlink_to("somebody@somewhere.1:2")
    (root / "core/folder.py").mkdir()
    (root / "core/.limits.py").write_text("x = 1\n")
    (root / "core/limits (copy).py").write_text("x = 1\n")
    (root / ".ipynb_checkpoints").mkdir()
    (root / ".ipynb_checkpoints/ids.py").write_text("x = 1\n")
    (root / "core/gone.py").symlink_to(root / "nowhere.py")
    assert package(root) == package()


@pytest.mark.parametrize("gone", ["__init__.py", "aws_lambda.py", None])
def test_what_has_no_handlers_is_no_package(gone: str | None, tmp_path: Path) -> None:
    """Deployed, it would fail at each invocation; a folder that is not there has none either."""
    root = tmp_path / "nowhere"
    if gone is not None:
        root = copy_of(tmp_path)
        (root / gone).unlink()
    with pytest.raises(ConfigurationError, match=f"has no {gone or '__init__.py and no aws_lambda.py'}: "):
        package(root)


def test_a_library_that_is_imported_from_a_zip_is_not_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no folder; the command says so in a sentence, and writes nothing."""
    (tmp_path / "library.zip").write_bytes(package().content)
    monkeypatch.setattr(dynamodb_outbox, "__file__", str(tmp_path / "library.zip/dynamodb_outbox/__init__.py"))
    assert main(["package", "--output", str(tmp_path / "code.zip")]) == 3
    assert "as pip installs them" in capsys.readouterr().err
    assert not (tmp_path / "code.zip").exists()


def test_it_is_small() -> None:
    """Far from Lambda's limits; what makes it grow by a half is worth a look."""
    assert len(package().content) < 1_500_000
