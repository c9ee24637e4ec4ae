"""The base class of controllers: watches, keys, and a pure reconcile function."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.clock import Clock
from pumice.controllers.options import ControllerOptions
from pumice.controllers.runtime.acts import Plan
from pumice.controllers.runtime.cache import ObjectCache
from pumice.controllers.runtime.objects import ApiObject, Key
from pumice.controllers.runtime.watches import Change, Watch

T = TypeVar("T", bound=ApiObject)
S = TypeVar("S")


class Caches:
    """The caches of all watches. Only the loop changes them."""

    def __init__(self, caches: Mapping[Watch[Any], ObjectCache[Any]]) -> None:
        self._caches = caches

    def __getitem__(self, watch: Watch[T]) -> ObjectCache[T]:
        return self._caches[watch]


class Controller(ABC, Generic[S]):
    """One controller. The loop calls `observe` and `reconcile` for one key at a time."""

    # As Volcano names it, such as `job-controller`.
    name: ClassVar[str]
    watches: Sequence[Watch[Any]]

    def __init__(self, options: ControllerOptions) -> None:
        """Most controllers have no options."""

    def track(self, change: Change[Any], caches: Caches) -> None:
        """Notes a change in memory. Called for every change, also on a standby, before `keys`.

        Most controllers note nothing.
        """

    @abstractmethod
    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        """The keys that a change enqueues. A pure function.

        Called for every change while this process leads. When it begins to lead, all objects that exist
        are such changes, as if they had been created.
        """

    def delay_seconds(self, change: Change[Any]) -> float:
        """How long the keys of a change may wait, so that one reconcile handles several changes.

        Called once for each change that enqueues a key, after `keys`.
        """
        return 0.0

    @abstractmethod
    def observe(self, key: Key, caches: Caches, now_ms: int) -> S | None:
        """Everything that `reconcile` may depend on; None: there is nothing to reconcile."""

    @abstractmethod
    def reconcile(self, observed: S) -> Plan:
        """What to do. A pure function: equal values give equal plans."""

    async def poll(self, api: ApiSession, clock: Clock, enqueue: Callable[[Key], None]) -> None:
        """Polls a system outside of the cluster while this process leads, until it is cancelled.

        Most controllers poll nothing.
        """
        await asyncio.Event().wait()
