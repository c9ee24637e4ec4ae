"""Values that are computed when they are first read."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


def cached_method(compute: Callable[[Any, K], V]) -> Callable[[Any, K], V]:
    """A method of one argument whose results are kept with the object, as by ``cached_property``."""
    attribute = f"_answers_of_{compute.__name__}"

    @wraps(compute)
    def answer(self: Any, key: K) -> V:
        answers: dict[K, V] = self.__dict__.setdefault(attribute, {})
        if key not in answers:
            answers[key] = compute(self, key)
        return answers[key]

    return answer


class Memo(dict[K, V]):
    """Computes a value when its key is first read, and keeps it until it is popped."""

    __slots__ = ("_compute",)

    def __init__(self, compute: Callable[[K], V]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: K) -> V:
        value = self[key] = self._compute(key)
        return value


class Versioned(Generic[V]):
    """Computes a value when it is read, and again when its version has changed since."""

    __slots__ = ("_compute", "_known", "_version_now")

    def __init__(self, version_now: Callable[[], object], compute: Callable[[], V]) -> None:
        self._version_now = version_now
        self._compute = compute
        self._known: tuple[object, V] | None = None

    def get(self) -> V:
        known, version = self._known, self._version_now()
        if known is None or known[0] != version:
            # The old value is freed before the new one is made.
            self._known = None
            known = self._known = (version, self._compute())
        return known[1]

    def forget_outdated(self) -> None:
        if self._known is not None and self._known[0] != self._version_now():
            self._known = None
