"""The followers of a core: one for every cluster that is asked about, one for inline requests."""

from __future__ import annotations

import asyncio
import logging

from pumice.server import errors
from pumice.server.clusters import Cluster
from pumice.server.surroundings import FollowerOptions
from pumice.server.whatif.link import FollowerLink
from pumice.server.whatif.tail import Base, Tail, follow, hears, without

log = logging.getLogger("pumice.server")
_INLINE = "inline requests"
_SECOND_NS = 1_000_000_000
# So often in its idle time it is asked whether a follower is still needed.
_LOOKS_WHILE_IDLE = 4


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
    """Started when first needed, unless they are to be there at once; unused ones end."""

    def __init__(self, options: FollowerOptions) -> None:
        self._options = options
        self._reaping: asyncio.Task[None] | None = None
        self._inline: FollowerLink | None = None
        self._by_cluster: dict[str, _Followed] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        # Every one that was made and has not been told to end.
        self._links: set[FollowerLink] = set()
        self._stopping: set[asyncio.Task[None]] = set()
        self._closed = False
        self._starting: dict[str, asyncio.Task[None]] = {}

    async def inline(self) -> FollowerLink:
        async with self._locks.setdefault("", asyncio.Lock()):
            if self._inline is None or not self._inline.is_alive:
                if self._inline is not None:
                    self._put_away(self._inline)
                self._inline = await self._start_inline()
                self._reap_idle()
            self._inline.touch()
            return self._inline

    async def _start_inline(self) -> FollowerLink:
        link = self._new_link(_INLINE)
        try:
            await link.start()
        except BaseException:
            self._put_away(link)
            raise
        return link

    async def of(self, cluster: Cluster) -> FollowerLink:
        """Stands at the op that its cluster stands at, or is about to."""
        async with self._locks.setdefault(cluster.name, asyncio.Lock()):
            known = self._by_cluster.get(cluster.name)
            if known is not None and known.cluster is cluster and known.is_current:
                known.link.touch()
                return known.link
            if known is not None:
                self._drop(known)
            return await self._start(cluster)

    def keep(self, cluster: Cluster) -> None:
        """Told of every session: where followers are to be there at once, this one is."""
        if self._options.at_once:
            self.ready(cluster)

    def ready(self, cluster: Cluster) -> FollowerLink | None:
        """The one that answers at once; None: none yet, but there will be one."""
        known = self._by_cluster.get(cluster.name)
        if known is not None and known.cluster is cluster and known.is_current:
            known.link.touch()
            return known.link if known.link.is_ready else None
        if cluster.name not in self._starting and not self._closed:
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
        link = self._new_link(cluster.name)
        followed = _Followed(cluster, link, Tail(link, loop))
        link.hold_back()
        try:
            base, _ = await asyncio.gather(_base(followed), _start_early(followed))
            self._by_cluster[cluster.name] = followed
            if not link.is_alive:
                await link.start()
            await link.send_base(base.values, base.objects)
        except BaseException:
            self._drop(followed)
            raise
        self._reap_idle()
        return link

    # Unused ones.

    def _reap_idle(self) -> None:
        if self._options.idle_ns and (self._reaping is None or self._reaping.done()):
            self._reaping = asyncio.get_running_loop().create_task(self._reap())

    async def _reap(self) -> None:
        """Runs while there are any."""
        idle_seconds = self._options.idle_ns / _SECOND_NS
        while self._inline is not None or self._by_cluster:
            await asyncio.sleep(idle_seconds / _LOOKS_WHILE_IDLE)
            for followed in list(self._by_cluster.values()):
                unused = followed.link.is_ready and followed.link.idle_seconds > idle_seconds
                if unused and not self._options.at_once:
                    log.info("%s: its follower was not used and ends", followed.cluster.name)
                    self._drop(followed)
            if self._inline is not None and self._inline.idle_seconds > idle_seconds:
                self._put_away(self._inline)
                self._inline = None

    def forget(self, cluster: Cluster) -> None:
        followed = self._by_cluster.get(cluster.name)
        if followed is not None and followed.cluster is cluster:
            self._drop(followed)
        lock = self._locks.get(cluster.name)
        if lock is not None and not lock.locked():
            del self._locks[cluster.name]

    def _drop(self, followed: _Followed) -> None:
        served, tail = followed.cluster.served, followed.tail

        def stop_listening() -> None:
            served.tap = without(served.tap, tail)

        followed.cluster.owner.post(stop_listening)
        if self._by_cluster.get(followed.cluster.name) is followed:
            del self._by_cluster[followed.cluster.name]
        self._put_away(followed.link)

    def _new_link(self, name: str) -> FollowerLink:
        if self._closed:
            raise errors.TrialLostError
        link = FollowerLink(name)
        self._links.add(link)
        return link

    def _put_away(self, link: FollowerLink) -> None:
        """Once, whoever comes first: who was using it, or the end of the core."""
        if link not in self._links:
            return
        self._links.remove(link)
        task = asyncio.get_running_loop().create_task(link.stop())
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    async def stop(self) -> None:
        """Returns when no process is left, also of those that a request is just starting."""
        self._closed = True
        ending = [*self._starting.values(), *([self._reaping] if self._reaping else [])]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for followed in list(self._by_cluster.values()):
            self._drop(followed)
        for link in list(self._links):
            self._put_away(link)
        await asyncio.gather(*self._stopping, return_exceptions=True)


async def _base(followed: _Followed) -> Base:
    """Taken by the owner, between two sessions."""
    cluster, tail = followed.cluster, followed.tail
    base = await cluster.owner.ask(lambda served: follow(served, tail))
    if base is None:
        raise errors.NotReadyError(cluster.name)
    return base


async def _start_early(followed: _Followed) -> None:
    """The process gets ready while a session keeps the owner busy.

    Of a cluster that is not complete there may be nothing to be had, and it would be in vain.
    """
    if followed.cluster.served.complete:
        await followed.link.start()
