"""What a controller is: a set of watches, keys, and a pure reconcile function."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

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
