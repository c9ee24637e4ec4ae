"""Questions to an extender, and its answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from pumice.core.decisions import Question
from pumice.core.plugins.extender.bodies import Body
from pumice.core.session.hooks import ABSTAIN
from pumice.core.session.session import Session

EXTENDER = "extender"
# The age up to which an answer is used. At half of it the question is asked again.
MAX_AGE_SECONDS = 60.0
# Maximum number of questions of a session, and maximum length of a question's body.
MAX_QUESTIONS = 1_000
MAX_BODY = 1024 * 1024
# The time after which a question without an answer is asked again.
_ASK_AGAIN_NS = 5 * 10**9
_NS = 1e9


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the extender; it has no body if it is pending, or the extender failed."""

    body: Mapping[str, Any] = field(default_factory=dict)
    # Why the extender failed.
    error: str = ""
    is_pending: bool = False

    def text(self, key: str) -> str:
        value = self.body.get(key)
        return value if isinstance(value, str) else ""

    @property
    def vote(self) -> int:
        """The status as a vote; a status that is not a number counts as an abstention."""
        value = self.body.get("status")
        return value if type(value) is int else ABSTAIN


_TOO_LONG = Answer(error="the question is too long")
_PENDING = Answer(is_pending=True)


class Answers:
    """The answers that the adapter has reported, and the questions of this session."""

    def __init__(
        self, session: Session, url: str, verbs: Mapping[str, str], timeout_ns: int
    ) -> None:
        """``verbs`` has the path of each hook."""
        self._session = session
        self._url, self._verbs, self._timeout_ns = url, verbs, timeout_ns
        self._data = session.data(EXTENDER)
        self._asked: set[str] = set()

    @property
    def ask_again_ns(self) -> int | None:
        """The time at which the questions of this session are asked again; None: there are none."""
        return self._session.now_ns + _ASK_AGAIN_NS if self._asked else None

    def get(self, verb: str, key: str, body: Callable[[], Body]) -> Answer:
        """The answer to a question; asks the question if the answer is pending or old."""
        name = f"{self._verbs[verb]}/{key}"
        values = self._data.get(name)
        time = values.get("time")
        age = self._session.now_ns / _NS - time if isinstance(time, float | int) else inf
        is_new = age <= MAX_AGE_SECONDS / 2
        was_asked = is_new or self._ask(verb, name, body, needs_answer=True)
        if age <= MAX_AGE_SECONDS:
            return _read(values)
        return _PENDING if was_asked else _TOO_LONG

    def tell(self, verb: str, key: str, body: Callable[[], Body]) -> None:
        """Calls a verb, if the extender has it; the answer has no effect."""
        if verb in self._verbs:
            name = f"{self._verbs[verb]}/{self._session.number}/{key}"
            self._ask(verb, name, body, needs_answer=False)

    def _ask(self, verb: str, name: str, body: Callable[[], Body], *, needs_answer: bool) -> bool:
        """Asks a question, in a later session if there are too many; false: the question is too long."""
        questions = self._session.questions
        if name in self._asked or len(questions) >= MAX_QUESTIONS:
            return True
        text = json.dumps(body(), separators=(",", ":"), sort_keys=True)
        if len(text) > MAX_BODY:
            return False
        self._asked.add(name)
        url = f"{self._url}/{self._verbs[verb]}"
        questions.append(Question(EXTENDER, name, url, text, self._timeout_ns, needs_answer))
        return True


def _read(values: Mapping[str, str | float]) -> Answer:
    error, text = values.get("error"), values.get("answer")
    if isinstance(error, str) and error:
        return Answer(error=error)
    try:
        body = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        body = None
    if not isinstance(body, dict):
        return Answer(error="the answer is not a JSON object")
    return Answer(body)
