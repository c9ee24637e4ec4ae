"""The followers of a core: one for every cluster that is asked about, one for inline requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pumice.server import errors
from pumice.server.clusters import Cluster
from pumice.server.served import ServedCluster
from pumice.server.whatif.link import FollowerLink
from pumice.server.whatif.tail import Base, Tail, follow, hears, without

log = logging.getLogger("pumice.server")
_INLINE = "inline requests"


class _Followed:
    """A cluster's follower, and what tells it the news."""

    def __init__(self, cluster: Cluster, link: FollowerLink, tail: Tail) -> None:
        self.cluster = cluster
        self.link = link
        self.tail = tail

    @property
    def is_current(self) -> bool:
        return self.link.is_alive and hears(self.cluster.served.tap, self.tail)


class Followers:
    """Started when first needed: a core that nobody asks has none."""

    def __init__(self) -> None:
        self._inline: FollowerLink | None = None
        self._by_cluster: dict[str, _Followed] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        self._starting: dict[str, asyncio.Task[None]] = {}

    async def inline(self) -> FollowerLink:
        async with self._locks.setdefault("", asyncio.Lock()):
            if self._inline is None or not self._inline.is_alive:
                if self._inline is not None:
                    self._put_away(self._inline)
                link = FollowerLink(_INLINE)
                await link.start()
                self._inline = link
            return self._inline

    async def of(self, cluster: Cluster) -> FollowerLink:
        """Stands at the op that its cluster stands at, or is about to."""
        async with self._locks.setdefault(cluster.name, asyncio.Lock()):
            known = self._by_cluster.get(cluster.name)
            if known is not None and known.cluster is cluster and known.is_current:
                return known.link
            if known is not None:
                self._drop(known)
            return await self._start(cluster)

    def ready(self, cluster: Cluster) -> FollowerLink | None:
        """The one that answers at once; None: none yet, but there will be one."""
        known = self._by_cluster.get(cluster.name)
        if known is not None and known.cluster is cluster and known.is_current:
            return known.link if known.link.is_ready else None
        if cluster.name not in self._starting:
            task = asyncio.get_running_loop().create_task(self._prepare(cluster))
            self._starting[cluster.name] = task
        return None

    async def _prepare(self, cluster: Cluster) -> None:
        try:
            await self.of(cluster)
        except Exception as error:
            log.debug("%s: no follower: %s", cluster.name, error)
        finally:
            self._starting.pop(cluster.name, None)

    async def _start(self, cluster: Cluster) -> FollowerLink:
        loop = asyncio.get_running_loop()
        link = FollowerLink(cluster.name)
        tail = Tail(link, loop)
        link.hold_back()
        base = await cluster.owner.ask(_follower_base(tail))
        if base is None:
            raise errors.NotReadyError(cluster.name)
        self._by_cluster[cluster.name] = followed = _Followed(cluster, link, tail)
        try:
            await link.start()
            await link.send_base(base.values, base.objects)
        except BaseException:
            self._drop(followed)
            raise
        return link

    def _drop(self, followed: _Followed) -> None:
        served, tail = followed.cluster.served, followed.tail

        def stop_listening() -> None:
            served.tap = without(served.tap, tail)

        followed.cluster.owner.post(stop_listening)
        self._by_cluster.pop(followed.cluster.name, None)
        self._put_away(followed.link)

    def _put_away(self, link: FollowerLink) -> None:
        task = asyncio.get_running_loop().create_task(link.stop())
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    async def stop(self) -> None:
        for task in list(self._starting.values()):
            task.cancel()
        await asyncio.gather(*self._starting.values(), return_exceptions=True)
        for followed in list(self._by_cluster.values()):
            self._drop(followed)
        if self._inline is not None:
            self._put_away(self._inline)
            self._inline = None
        await asyncio.gather(*self._stopping, return_exceptions=True)


def _follower_base(tail: Tail) -> Callable[[ServedCluster], Base | None]:
    return lambda served: follow(served, tail)
