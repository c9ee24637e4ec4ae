"""What a controller is: a set of watches, keys, and a pure reconcile function."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.clock import Clock
from pumice.controllers.runtime.acts import Plan
from pumice.controllers.runtime.cache import ObjectCache
from pumice.controllers.runtime.objects import Watched
from pumice.controllers.runtime.watches import Change, Watch

W = TypeVar("W", bound=Watched)
S = TypeVar("S")

# Namespace and name of the object that is reconciled.
Key = tuple[str, str]


class Caches:
    """The caches of all watches. Only the loop changes them."""

    def __init__(self, caches: Mapping[Watch[Any], ObjectCache[Any]]) -> None:
        self._caches = caches

    def __getitem__(self, watch: Watch[W]) -> ObjectCache[W]:
        return self._caches[watch]


@runtime_checkable
class Polls(Protocol):
    """A controller that also asks something outside of the cluster, while its process leads."""

    async def poll(self, api: ApiSession, clock: Clock, add: Callable[[Key], None]) -> None:
        """Runs until it is cancelled; adds the keys that an answer concerns."""
        ...


@runtime_checkable
class Delays(Protocol):
    """A controller for which some changes need no answer at once."""

    def delay_seconds(self, change: Change[Any]) -> float:
        """How long the keys of a change may wait, so that one look answers several changes.

        Called after `keys`, once for a change that concerns a key.
        """
        ...


class Controller(Protocol[S]):
    """One controller. The loop calls `look` and `reconcile` for one key at a time."""

    @property
    def name(self) -> str:
        """As Volcano names it, such as `job-controller`."""
        ...

    @property
    def watches(self) -> Sequence[Watch[Any]]: ...

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        """The keys that a change concerns. Called for every change, also before leading."""
        ...

    def look(self, key: Key, caches: Caches, now_ms: int) -> S | None:
        """Everything that `reconcile` may know about a key; None: there is nothing to do."""
        ...

    def reconcile(self, seen: S) -> Plan:
        """What to do. A pure function: equal values give equal plans."""
        ...
