"""A role of an account with all its policies, those that are attached to it too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamodb_outbox.doctor.inventory import Piece, Unseen, name_in

if TYPE_CHECKING:
    from dynamodb_outbox.doctor.account.asking import Asking

__all__ = ["role_piece"]

_MARKER = ("Marker", "Marker")


def role_piece(asking: Asking, arn: str) -> Piece | Unseen | None:
    """Return a role; None when there is none."""
    name = name_in(arn)
    answer = asking.ask("iam", "GetRole", RoleName=name)
    if answer is None or isinstance(answer, Unseen):
        return answer
    policies: list[Any] = []
    hidden: list[str] = []
    inline = asking.all("iam", "ListRolePolicies", "PolicyNames", _MARKER, RoleName=name)
    if isinstance(inline, Unseen):
        hidden.append(inline.why)
    for each in inline if isinstance(inline, list) else ():
        told = asking.ask("iam", "GetRolePolicy", RoleName=name, PolicyName=each)
        policies.append({"PolicyName": each, "PolicyDocument": _document(told)})
    attached = asking.all("iam", "ListAttachedRolePolicies", "AttachedPolicies", _MARKER, RoleName=name)
    if isinstance(attached, Unseen):
        hidden.append(attached.why)
    managed = [_managed(asking, each) for each in (attached if isinstance(attached, list) else ())]
    properties = {
        "RoleName": name,
        "Policies": policies,
        "AttachedPolicies": managed,
        "AssumeRolePolicyDocument": answer["Role"].get("AssumeRolePolicyDocument"),
        "PermissionsBoundary": answer["Role"].get("PermissionsBoundary"),
        "HiddenPolicies": hidden,
    }
    return Piece(name, "AWS::IAM::Role", arn, properties)


def _managed(asking: Asking, attached: dict[str, Any]) -> dict[str, Any]:
    """Return an attached policy with the document that counts."""
    arn, name = str(attached["PolicyArn"]), str(attached["PolicyName"])
    answer = asking.ask("iam", "GetPolicy", PolicyArn=arn)
    if answer is not None and not isinstance(answer, Unseen):
        version = answer["Policy"].get("DefaultVersionId")
        answer = asking.ask("iam", "GetPolicyVersion", PolicyArn=arn, VersionId=version)
        answer = answer if answer is None or isinstance(answer, Unseen) else answer.get("PolicyVersion")
    return {
        "PolicyName": name,
        "PolicyDocument": _document(answer, "Document"),
        "Managed": ":iam::aws:" in arn,
    }


def _document(answer: Any, name: str = "PolicyDocument") -> Any:
    if answer is None or isinstance(answer, Unseen):
        return answer or Unseen("it is gone")
    return answer.get(name)
