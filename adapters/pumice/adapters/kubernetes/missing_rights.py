"""Withholds writes for which a right is missing.

A status is tried again until it is written, and a controller tries again to create a pod. With a missing
right, thousands of objects would repeat the same refused call. After a few refusals only one call is sent
now and then, for each resource and namespace. When it is not refused any more, all calls are sent again.
Binds and evictions are never withheld, because the members of a gang must not be treated differently.
"""

import logging
import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from pumice.adapters.kubernetes.errors import ApiError, MissingRightsError, WithheldError
from pumice.adapters.kubernetes.resources import group_of, namespace_of, resource_label
from pumice.adapters.kubernetes.session import JSON, Fence
from pumice.adapters.runtime.clock import Backoff, Clock
from pumice.adapters.runtime.metrics import Metrics

log = logging.getLogger(__name__)

# Kubernetes' names of the verbs that are rights.
_VERBS: Final = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
# After so many refusals in a row, calls are withheld.
REFUSALS: Final = 3
# Delays between the calls that are sent nevertheless, for one namespace and for all of them.
_BACKOFF: Final = Backoff(1.0, 30.0)
_SPACING_SECONDS: Final = 0.1
# In further namespaces, no calls are withheld.
MOST_NAMESPACES: Final = 1000


class ApiCalls(Protocol):
    """Calls to an API server."""

    async def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str = JSON,
        accept: str = JSON,
        seconds: float = 10.0,
        fence: Fence | None = None,
        on_warning: Callable[[str], None] | None = None,
    ) -> bytes: ...


@dataclass(slots=True)
class _Refused:
    """The refusals in a row in one namespace, and when the next call may be sent."""

    # Calls that were in flight when the others were withheld do not count.
    count: int = 0
    due: float = 0.0
    # The text of the last refusal.
    message: str = ""

    @property
    def is_withheld(self) -> bool:
        return self.count >= REFUSALS


@dataclass(slots=True)
class _Right:
    """A right that is missing in some namespaces."""

    name: str
    # Namespaces, "" for objects of the whole cluster.
    refused: OrderedDict[str, _Refused] = field(default_factory=OrderedDict)
    # When the next call may be sent in any namespace.
    due: float = 0.0


class GuardedCalls:
    """Calls of one API session, without those for which a right is missing."""

    def __init__(self, api: ApiCalls, clock: Clock, rng: random.Random, metrics: Metrics) -> None:
        self._api, self._clock, self._rng, self._metrics = api, clock, rng, metrics
        self._rights: dict[str, _Right] = {}

    async def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str = JSON,
        accept: str = JSON,
        seconds: float = 10.0,
        fence: Fence | None = None,
        on_warning: Callable[[str], None] | None = None,
    ) -> bytes:
        """The body of the response. Raises KubernetesError, WithheldError if the call was not sent."""
        name, namespace = _right_name(method, path), namespace_of(path)
        self._withhold(name, namespace)
        try:
            answer = await self._api.call(
                method,
                path,
                body,
                content_type=content_type,
                accept=accept,
                seconds=seconds,
                fence=fence,
                on_warning=on_warning,
            )
        except ApiError as error:
            if isinstance(error, MissingRightsError) and error.right == name:
                self._note_refused(name, namespace, error)
            elif not error.is_transient:
                # Rights are checked before anything else.
                self._note_granted(name, namespace)
            raise
        self._note_granted(name, namespace)
        return answer

    def _withhold(self, name: str, namespace: str) -> None:
        """Raises WithheldError, unless the call should be sent."""
        right = self._rights.get(name)
        refused = right.refused.get(namespace) if right is not None else None
        if right is None or refused is None or not refused.is_withheld:
            return
        now = self._clock.now()
        if now < max(refused.due, right.due):
            raise WithheldError(refused.message)
        right.due = now + _SPACING_SECONDS
        refused.count += 1
        self._set_due(refused)

    def _set_due(self, refused: _Refused) -> None:
        refused.due = self._clock.now() + _BACKOFF.delay(refused.count - REFUSALS + 1, self._rng)

    def _note_refused(self, name: str, namespace: str, error: MissingRightsError) -> None:
        right = self._rights.setdefault(name, _Right(name))
        if namespace not in right.refused and len(right.refused) >= MOST_NAMESPACES:
            return
        refused = right.refused.setdefault(namespace, _Refused())
        refused.message = error.message
        if refused.is_withheld:
            return
        refused.count += 1
        if refused.count == REFUSALS:
            self._set_due(refused)
            count = sum(one.is_withheld for one in right.refused.values())
            level = logging.ERROR if count == 1 else logging.DEBUG
            most = _BACKOFF.ceiling_seconds
            text = "%s; until then one such call is sent every %g s, and the others are withheld"
            log.log(level, text, error.message, most)
            self._metrics.gauge("missing_rights", count, right=name)

    def _note_granted(self, name: str, namespace: str) -> None:
        right = self._rights.get(name)
        refused = right.refused.pop(namespace, None) if right is not None else None
        if right is None or refused is None:
            return
        if refused.is_withheld:
            # The right may be granted in the other namespaces too.
            log.info("right not missing any more: %s", name)
            right.refused.clear()
            self._metrics.remove_gauge("missing_rights", right=name)
        if not right.refused:
            del self._rights[name]


def _right_name(method: str, path: str) -> str:
    """The right that a call needs, such as `patch on pods/status`; "": it only reads."""
    verb = _VERBS.get(method)
    if verb is None:
        return ""
    resource, group = resource_label(path), group_of(path)
    return f"{verb} on {resource}.{group}" if group else f"{verb} on {resource}"
