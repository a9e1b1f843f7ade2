"""What an event source says about invocations that fail, or succeed in a doubtful way.

A batch that failed is invoked again, for ever if need be, and fails for the same reason each time. The reason is said
once; the journal has every invocation.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

__all__ = ["Complaints"]

_log = logging.getLogger(__name__)

_REMEMBERED = 100


@dataclass
class Complaints:
    """Warns of the reasons for which invocations failed, or succeeded without meaning to: of each one once.

    When `_REMEMBERED` different ones were said (a message with an id in it is a new one each time), all are forgotten.
    """

    _said: set[str] = field(default_factory=set)

    def failed(self, reason: str) -> None:
        """Take note of an invocation that failed as a whole, and will be repeated."""
        self._say("an invocation failed, and will be repeated: %s", reason)

    def doubtful(self, reason: str) -> None:
        """Take note of an answer that means success, and perhaps was not meant so."""
        self._say("an invocation succeeded, as Lambda sees it: %s", reason)

    def _say(self, sentence: str, reason: str) -> None:
        if reason in self._said:
            return
        if len(self._said) >= _REMEMBERED:
            self._said.clear()
        self._said.add(reason)
        _log.warning(sentence, reason)
