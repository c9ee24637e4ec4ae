"""Performs the acts of plans, a bounded number of calls at a time."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from pumice.adapters.kubernetes.errors import (
    CONFLICT,
    NOT_FOUND,
    ApiError,
    KubernetesError,
    NamespaceTerminatingError,
    NotLeadingError,
    one_line,
)
from pumice.adapters.kubernetes.object_head import UNREADABLE
from pumice.adapters.kubernetes.resources import Resource
from pumice.adapters.kubernetes.session import JSON, METADATA_ONLY, ApiSession, Fence
from pumice.adapters.runtime.metrics import Metrics
from pumice.controllers.runtime.acts import Act, Create, Delete, Emit, Patch, Write
from pumice.controllers.runtime.cache import ObjectCache
from pumice.controllers.runtime.event_queue import EventQueue

log = logging.getLogger(__name__)

_ENCODE: Final = msgspec.json.Encoder().encode
# Calls of one plan that are in flight at once.
MOST_CALLS: Final = 64

CachesOfResource: TypeAlias = Mapping[Resource, Sequence[ObjectCache[Any]]]


class Performer:
    """Performs acts and puts their results into the caches."""

    def __init__(
        self,
        api: ApiSession,
        caches: CachesOfResource,
        events: EventQueue,
        metrics: Metrics,
        fence: Fence,
        seconds: float,
    ) -> None:
        self._api, self._caches, self._events = api, caches, events
        self._metrics, self._fence, self._seconds = metrics, fence, seconds

    async def perform(self, stages: Iterable[Sequence[Act]]) -> str:
        """Performs stages until one fails; returns the first problem of that stage, or ""."""
        for stage in stages:
            writes = [act for act in stage if not isinstance(act, Emit)]
            problem = await self._write_all(writes)
            if problem:
                return problem
            for act in stage:
                if isinstance(act, Emit):
                    self._events.put(act)
        return ""

    async def _write_all(self, writes: Sequence[Write]) -> str:
        if len(writes) == 1:
            return await self._write(writes[0])
        waiting = iter(writes)
        count = min(MOST_CALLS, len(writes))
        workers = [self._write_some(waiting) for _ in range(count)]
        problems = await asyncio.gather(*workers)
        return next(filter(None, problems), "")

    async def _write_some(self, waiting: Iterator[Write]) -> str:
        """Takes acts until none is left; the others go on after a failure."""
        first = ""
        for act in waiting:
            problem = await self._write(act)
            first = first or problem
        return first

    async def _write(self, act: Write) -> str:
        verb = type(act).__name__.lower()
        resource = act.resource.full_name
        try:
            result = await self._call(act)
        except NotLeadingError as error:
            return one_line(error)
        except NamespaceTerminatingError:
            # Whatever is in the namespace goes with it.
            self._metrics.count("acts", verb=verb, resource=resource, result="terminating")
            return ""
        except KubernetesError as error:
            self._metrics.count("acts", verb=verb, resource=resource, result="failed")
            self._report(act, error)
            return f"{verb} of {act.resource.name} {_name(act)}: {one_line(error)}"
        self._metrics.count("acts", verb=verb, resource=resource, result=result or "done")
        if result == "exists" and isinstance(act, Create) and not act.may_exist:
            problem = f"{act.resource.name} {_name(act)} exists already"
            self._report(act, ApiError(CONFLICT, "AlreadyExists", problem))
            return problem
        return ""

    def _report(self, act: Write, error: KubernetesError) -> None:
        if act.on_refusal is not None and isinstance(error, ApiError) and not error.is_transient:
            about = act.on_refusal
            message = f"{about.message}: {one_line(error)}"
            self._events.put(Emit(about.about, about.reason, message, warning=True))

    async def _call(self, act: Write) -> str:
        """The result in a word; "" for one that took effect. Raises KubernetesError."""
        match act:
            case Create():
                return await self._create(act)
            case Patch():
                return await self._patch(act)
            case Delete():
                return await self._delete(act)

    async def _create(self, act: Create) -> str:
        body = act.body if act.complete is None else await asyncio.to_thread(act.complete)
        path = act.resource.path(body["metadata"].get("namespace", ""))
        try:
            answer = await self._api.call(
                "POST",
                path,
                _ENCODE(body),
                accept=METADATA_ONLY,
                seconds=self._seconds,
                fence=self._fence,
            )
        except ApiError as error:
            if error.status == CONFLICT and not isinstance(error, NamespaceTerminatingError):
                return "exists"
            raise
        if self._caches.get(act.resource):
            metadata = _metadata(answer)
            if metadata is not None:
                self._assume(act.resource, _ENCODE({**body, "metadata": metadata}))
        return ""

    async def _patch(self, act: Patch) -> str:
        body: Any = act.body
        if act.uid:
            metadata = {**body.get("metadata", {}), "uid": act.uid}
            if act.version:
                metadata["resourceVersion"] = act.version
            body = {**body, "metadata": metadata}
        is_cached = bool(self._caches.get(act.resource))
        try:
            answer = await self._api.call(
                "PATCH",
                act.resource.path(act.namespace, act.name, act.subresource),
                _ENCODE(body),
                content_type=act.content_type,
                accept=JSON if is_cached else METADATA_ONLY,
                seconds=self._seconds,
                fence=self._fence,
            )
        except ApiError as error:
            if error.status == NOT_FOUND:
                return "gone"
            raise
        if is_cached:
            self._assume(act.resource, answer)
        return ""

    async def _delete(self, act: Delete) -> str:
        options: dict[str, Any] = {"propagationPolicy": act.propagation}
        wanted = {"uid": act.uid, "resourceVersion": act.version}
        options["preconditions"] = {name: text for name, text in wanted.items() if text}
        try:
            answer = await self._api.call(
                "DELETE",
                act.resource.path(act.namespace, act.name),
                _ENCODE(options),
                seconds=self._seconds,
                fence=self._fence,
            )
        except ApiError as error:
            if error.status == NOT_FOUND:
                self._forget(act)
                return "gone"
            raise
        if self._caches.get(act.resource):
            metadata = _metadata(answer)
            if metadata is not None and metadata.get("deletionTimestamp"):
                self._assume(act.resource, answer)
            else:
                self._forget(act)
        return ""

    def _forget(self, act: Delete) -> None:
        for cache in self._caches.get(act.resource, ()):
            cache.assume_deleted((act.namespace, act.name), act.uid)

    def _assume(self, resource: Resource, raw: bytes) -> None:
        for cache in self._caches.get(resource, ()):
            cache.assume(raw)


def _name(act: Write) -> str:
    if isinstance(act, Create):
        metadata = act.body["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
    else:
        namespace, name = act.namespace, act.name
    return f"{namespace}/{name}" if namespace else str(name)


def _metadata(answer: bytes) -> dict[str, Any] | None:
    """The metadata of an answer, if it is an object."""
    try:
        found = msgspec.json.decode(answer)
    except UNREADABLE:
        return None
    if not isinstance(found, dict) or found.get("kind") == "Status":
        return None
    metadata = found.get("metadata")
    return metadata if isinstance(metadata, dict) and metadata.get("uid") else None
