"""What is around an outbox in an account: schedules, alarms, and where events, batches and alarms go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamodb_outbox.doctor.account.keys import customer_key
from dynamodb_outbox.doctor.around import ARCHIVE
from dynamodb_outbox.doctor.choosing import SCHEDULES
from dynamodb_outbox.doctor.inventory import Piece, Unseen, name_in, segments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.doctor.account.asking import Asking
    from dynamodb_outbox.doctor.choosing import Asked
    from dynamodb_outbox.doctor.system import System

__all__ = ["Surroundings"]

Found = tuple[list[Piece], dict[str, Unseen]]

_NEXT = ("NextToken", "NextToken")
_ALARMS = {"MetricAlarms": "AWS::CloudWatch::Alarm", "CompositeAlarms": "AWS::CloudWatch::CompositeAlarm"}


class Surroundings:
    """Asks for what a system names."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    def schedules(self, sweepers: list[Piece]) -> Found:
        """Return the rules of EventBridge that invoke sweepers. EventBridge Scheduler cannot be asked by target."""
        pieces: list[Piece] = []
        hidden = {SCHEDULES[1]: Unseen("no rule invokes it; schedules of EventBridge Scheduler are not looked at")}
        for function in sweepers:
            names = self._asking.all("events", "ListRuleNamesByTarget", "RuleNames", _NEXT, TargetArn=function.arn)
            if not isinstance(names, list):
                hidden[SCHEDULES[0]] = names or Unseen("there is no answer")
                continue
            for name in names:
                answer = self._asking.ask("events", "DescribeRule", Name=name)
                if isinstance(answer, Unseen):
                    hidden[SCHEDULES[0]] = answer
                elif answer is not None:
                    told = {**answer, "Targets": [{"Arn": function.arn}]}
                    pieces.append(Piece(name, SCHEDULES[0], str(answer.get("Arn")), told))
        return pieces, hidden

    def alarms(self) -> Found:
        """Return the alarms of the account, composite ones too."""
        found: list[Piece] = []
        for members, kind in _ALARMS.items():
            listed = self._asking.all("cloudwatch", "DescribeAlarms", members, _NEXT, AlarmTypes=[members[:-1]])
            if not isinstance(listed, list):
                return [], dict.fromkeys(_ALARMS.values(), listed or Unseen("there is no answer"))
            found += [Piece(str(each["AlarmName"]), kind, str(each.get("AlarmArn")), each) for each in listed]
        return found, {}

    def of(self, system: System, asked: Asked) -> Found:
        """Return where events go, batches that are given up, and alarms; and the bucket of a claim check."""
        targets = () if isinstance(system.targets, Unseen) else system.targets
        arns = dict.fromkeys((*(each.arn for each in targets), *system.failures, *system.topics))
        pieces: list[Piece] = []
        hidden: dict[str, Unseen] = {}
        own = segments(str(system.table_arn))[4:5]
        for arn in arns:
            self._add(arn, self._named(arn, own), pieces, hidden)
        for arn in (each.arn for each in targets if each.kind == "bus"):
            archives = self._asking.ask("events", "ListArchives", _region(arn), EventSourceArn=arn)
            if isinstance(archives, Unseen):
                hidden[ARCHIVE] = archives
            elif archives is not None:
                told = [{**each, "SourceArn": arn} for each in archives.get("Archives") or ()]
                pieces += [Piece(str(each["ArchiveName"]), ARCHIVE, str(each["ArchiveName"]), each) for each in told]
        if asked.payloads is not None:
            arn = f"arn:aws:s3:::{name_in(asked.payloads)}"
            self._add(arn, self._bucket(arn), pieces, hidden)
        return pieces, hidden

    @staticmethod
    def _add(arn: str, found: Any, pieces: list[Piece], hidden: dict[str, Unseen]) -> None:
        if isinstance(found, Unseen):
            hidden[arn] = found
        elif found is not None:
            pieces.append(found)

    def _named(self, arn: str, own: list[str]) -> Piece | Unseen | None:
        """Return what has an ARN; None when it is known that nothing has: another account may hide what it has."""
        ask = {"events": self._bus, "sns": self._topic, "sqs": self._queue, "s3": self._bucket}.get(segments(arn)[2])
        if ask is None:
            return Unseen(f"{segments(arn)[2]} is not asked")
        found = ask(arn)
        if found is None and segments(arn)[4] not in ("", *own):
            return Unseen("it is another account's, and not shown to this one")
        return found

    def _bus(self, arn: str) -> Piece | Unseen | None:
        """Return a bus, by its ARN; local engines know it by its name alone."""
        answer = self._asking.ask("events", "DescribeEventBus", _region(arn), Name=arn)
        if answer is None:
            answer = self._asking.ask("events", "DescribeEventBus", _region(arn), Name=name_in(arn))
            same = isinstance(answer, dict) and answer.get("Arn") == arn
            answer = answer if same or isinstance(answer, Unseen) else None
        return _piece(arn, "AWS::Events::EventBus", answer)

    def _topic(self, arn: str) -> Piece | Unseen | None:
        answer = self._asking.ask("sns", "GetTopicAttributes", _region(arn), TopicArn=arn)
        if answer is None or isinstance(answer, Unseen):
            return answer
        told: Mapping[str, Any] = answer.get("Attributes") or {}
        return _piece(arn, "AWS::SNS::Topic", {**told, "Subscribed": told.get("SubscriptionsConfirmed", 0)})

    def _queue(self, arn: str) -> Piece | Unseen | None:
        place = segments(arn)
        url = self._asking.ask("sqs", "GetQueueUrl", place[3], QueueName=place[5], QueueOwnerAWSAccountId=place[4])
        if url is None or isinstance(url, Unseen):
            return url
        asked = {"QueueUrl": url["QueueUrl"], "AttributeNames": ["All"]}
        answer = self._asking.ask("sqs", "GetQueueAttributes", place[3], **asked)
        if answer is None or isinstance(answer, Unseen):
            return answer
        return _piece(arn, "AWS::SQS::Queue", answer.get("Attributes") or {})

    def _bucket(self, arn: str) -> Piece | Unseen | None:
        name = segments(arn)[5]
        answer = self._asking.ask("s3", "HeadBucket", Bucket=name)
        if answer is None or isinstance(answer, Unseen):
            return answer
        policy = self._asking.ask("s3", "GetBucketPolicy", Bucket=name)
        told = {
            "BucketName": name,
            "LifecycleConfiguration": _rules(self._asking.ask("s3", "GetBucketLifecycleConfiguration", Bucket=name)),
            "BucketEncryption": self._encryption(name),
            "Policy": policy if policy is None or isinstance(policy, Unseen) else policy.get("Policy"),
        }
        return _piece(arn, "AWS::S3::Bucket", told)

    def _encryption(self, bucket: str) -> Any:
        """Return how a bucket encrypts, without keys of AWS's own."""
        answer = self._asking.ask("s3", "GetBucketEncryption", Bucket=bucket)
        if answer is None or isinstance(answer, Unseen):
            return answer
        rules = answer["ServerSideEncryptionConfiguration"].get("Rules") or ()
        ids = [(each.get("ApplyServerSideEncryptionByDefault") or {}).get("KMSMasterKeyID") for each in rules]
        keys = [customer_key(self._asking, each) for each in ids]
        return {
            "ServerSideEncryptionConfiguration": [
                {"ServerSideEncryptionByDefault": {"KMSMasterKeyID": each}} for each in keys
            ]
        }


def _rules(answer: Any) -> Any:
    if answer is None or isinstance(answer, Unseen):
        return answer
    said = answer.get("Rules") or ()
    return {"Rules": [{**each, "ExpirationInDays": (each.get("Expiration") or {}).get("Days")} for each in said]}


def _piece(arn: str, kind: str, answer: Any) -> Piece | Unseen | None:
    return answer if answer is None or isinstance(answer, Unseen) else Piece(name_in(arn), kind, arn, answer)


def _region(arn: str) -> str | None:
    return segments(arn)[3] or None
