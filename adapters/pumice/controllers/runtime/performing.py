"""Performs the acts of plans, a bounded number of calls at a time."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from pumice.adapters.kubernetes.errors import (
    CONFLICT,
    NOT_FOUND,
    ApiError,
    KubernetesError,
    NamespaceTerminatingError,
    NotLeadingError,
    WithheldError,
    one_line,
)
from pumice.adapters.kubernetes.missing_rights import ApiCalls
from pumice.adapters.kubernetes.object_head import UNREADABLE
from pumice.adapters.kubernetes.resources import Resource
from pumice.adapters.kubernetes.session import JSON, METADATA_ONLY, Fence
from pumice.adapters.runtime.metrics import Metrics
from pumice.controllers.runtime.acts import Act, Create, Delete, Emit, Patch, Write
from pumice.controllers.runtime.cache import ObjectCache
from pumice.controllers.runtime.event_queue import EventQueue
from pumice.controllers.runtime.failures import Failure, FailureSeries, is_outage, worst
from pumice.controllers.runtime.objects import ApiObject, Key, Manifest, shown_key

log = logging.getLogger(__name__)

_ENCODE: Final = msgspec.json.Encoder().encode
# Calls of one plan that are in flight at once.
MOST_CALLS: Final = 64
# Timeout of a creation. Admission webhooks may take this long. A creation that arrives after another
# process leads is harmless, because both processes create an object of the same name.
CREATE_SECONDS: Final = 30.0
# Remembered warnings, which are not repeated.
MOST_WARNINGS: Final = 1000
# Reason of the event for a warning of the API server.
_API_WARNING: Final = "APIWarning"
# Reason of the API server's answer to the creation of an object that exists.
_EXISTS: Final = "AlreadyExists"


class _Answer(ApiObject):
    kind: str = ""


_ANSWER: Final = msgspec.json.Decoder(_Answer)


class Performer:
    """Performs acts, and puts their results into the caches."""

    def __init__(
        self,
        api: ApiCalls,
        caches: Mapping[Resource, Sequence[ObjectCache[Any]]],
        events: EventQueue,
        metrics: Metrics,
        fence: Fence,
        seconds: float,
    ) -> None:
        # Called with the body and the metadata of every created object that a cache holds.
        self.on_created: Callable[[Manifest, Manifest], None] = _ignore
        self._api, self._caches, self._events = api, caches, events
        self._metrics, self._fence, self._seconds = metrics, fence, seconds
        self._warned: OrderedDict[Emit, None] = OrderedDict()

    async def perform(self, stages: Iterable[Sequence[Act]]) -> Failure | None:
        """Performs stages until one fails. Returns the failure, or None."""
        for stage in stages:
            writes = [act for act in stage if not isinstance(act, Emit)]
            failure = await self._write_all(writes)
            if failure is not None:
                return failure
            for act in stage:
                if isinstance(act, Emit):
                    self._events.put(act)
        return None

    async def _write_all(self, writes: Sequence[Write]) -> Failure | None:
        if len(writes) == 1:
            return await self._write(writes[0])
        waiting, series = iter(writes), FailureSeries()
        count = min(MOST_CALLS, len(writes))
        workers = [self._write_some(waiting, series) for _ in range(count)]
        # All workers end before an error of one of them is raised: the key may be retried at once.
        results = await asyncio.gather(*workers, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return worst(result for result in results if not isinstance(result, BaseException))

    async def _write_some(self, waiting: Iterator[Write], series: FailureSeries) -> Failure | None:
        """One of several workers that share an iterator; one failure does not stop the other acts."""
        found: Failure | None = None
        for act in waiting:
            if series.skips(act):
                continue
            failure = await self._write(act)
            series.add(act, failure)
            found = worst((found, failure))
        return found

    async def _write(self, act: Write) -> Failure | None:
        verb = type(act).__name__.lower()
        resource = act.resource.full_name
        try:
            result = await self._call(act)
        except NotLeadingError as error:
            return Failure(one_line(error), is_not_leading=True)
        except NamespaceTerminatingError:
            # All objects of the namespace will be deleted, so the act is not needed any more.
            self._metrics.count("acts", verb=verb, resource=resource, result="terminating")
            return None
        except KubernetesError as error:
            is_conflict = isinstance(error, ApiError) and error.status == CONFLICT
            is_withheld = isinstance(error, WithheldError)
            result = "conflict" if is_conflict else "withheld" if is_withheld else "failed"
            self._metrics.count("acts", verb=verb, resource=resource, result=result)
            if not is_conflict:
                self._report(act, error)
            text = f"{verb} {act.resource.name} {_name(act)}: {one_line(error)}"
            wait = error.retry_after if isinstance(error, ApiError) else 0.0
            return Failure(text, is_conflict, wait, is_outage(error), is_withheld=is_withheld)
        self._metrics.count("acts", verb=verb, resource=resource, result=result or "done")
        if result == "exists" and isinstance(act, Create):
            return await self._handle_existing(act)
        if result == "gone" and isinstance(act, Patch) and self._holds(act):
            # The watch will report the deletion, or the API server did not serve the resource for a moment.
            return Failure(f"{act.resource.name} {_name(act)} was not found", is_conflict=True)
        return None

    def _holds(self, act: Patch) -> bool:
        cached = (
            cache.get(act.namespace, act.name) for cache in self._caches.get(act.resource, ())
        )
        return any(one is not None and one.metadata.uid == act.uid for one in cached)

    def _report(self, act: Write, error: KubernetesError) -> None:
        """Emits the event of an act that the API server refused."""
        if act.on_refusal is not None and isinstance(error, ApiError) and not error.is_transient:
            self._events.put(_refusal(act.on_refusal, one_line(error)))

    def _warn(self, act: Create, text: str) -> None:
        """Emits a warning of the API server, once for all objects of one owner."""
        if act.on_refusal is None:
            return
        message = f"{act.resource.name}: {text}"
        self._put_once(Emit(act.on_refusal.about, _API_WARNING, message, warning=True))

    def _put_once(self, event: Emit) -> None:
        if event in self._warned:
            self._warned.move_to_end(event)
            return
        self._warned[event] = None
        if len(self._warned) > MOST_WARNINGS:
            self._warned.popitem(last=False)
        self._events.put(event)

    async def _call(self, act: Write) -> str:
        """The result in a word; "": the act took effect. Raises KubernetesError."""
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
                accept=JSON if act.reads_back else METADATA_ONLY,
                seconds=max(self._seconds, CREATE_SECONDS),
                fence=self._fence,
                on_warning=lambda text: self._warn(act, text),
            )
        except ApiError as error:
            if error.status == CONFLICT and error.reason == _EXISTS:
                return "exists"
            raise
        caches = self._caches.get(act.resource)
        metadata = _metadata(answer) if caches else None
        if caches and metadata is not None:
            for cache in caches:
                if act.reads_back:
                    cache.assume(answer)
                else:
                    cache.assume_created({**body, "metadata": metadata})
            self.on_created(body, metadata)
        return ""

    async def _handle_existing(self, act: Create) -> Failure | None:
        """Decides by the owner whether an existing object is the desired one."""
        metadata = act.body["metadata"]
        desired_owner, existing = _controller(metadata), None
        if desired_owner:
            try:
                existing = await self._read(act.resource, _key(act))
            except KubernetesError as error:
                self._report(act, error)
                return Failure(f"get {act.resource.name} {_name(act)}: {one_line(error)}")
            if existing is None:
                return Failure(f"{act.resource.name} {_name(act)} was deleted", is_conflict=True)
        owner = _controller(existing or {})
        if existing is not None and owner.get("uid") == desired_owner["uid"]:
            # The answer to its creation was lost, or another process created it.
            return await self._take_over(act, existing)
        is_earlier = bool(owner) and _without_uid(owner) == _without_uid(desired_owner)
        text = f"{act.resource.name} {_name(act)} exists already"
        if owner:
            earlier = "an earlier " if is_earlier else ""
            text += f" and belongs to {earlier}{owner.get('kind')} {owner.get('name')}"
        if act.on_refusal is not None and (owner or not act.may_exist):
            # The creation is retried until the object is gone, so one event is enough.
            self._put_once(_refusal(act.on_refusal, text))
        if act.may_exist and not is_earlier:
            return None
        return Failure(text, is_conflict=is_earlier)

    async def _read(self, resource: Resource, key: Key) -> Manifest | None:
        """The metadata of an object; None: it does not exist. Updates the caches.

        Raises KubernetesError.
        """
        path = resource.path(*key)
        is_cached = bool(self._caches.get(resource))
        accept = JSON if is_cached else METADATA_ONLY
        try:
            answer = await self._api.call("GET", path, accept=accept, seconds=self._seconds)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        if is_cached:
            self._assume(resource, answer)
        return _metadata(answer)

    async def _take_over(self, act: Create, existing: Manifest) -> Failure | None:
        labels = act.body["metadata"].get("labels") or {}
        if not act.takes_over or labels.items() <= (existing.get("labels") or {}).items():
            return None
        body = {"metadata": {"labels": labels}, "data": act.body.get("data")}
        return await self._write(Patch(act.resource, *_key(act), existing["uid"], body))

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
        uid = act.uid
        if act.owner_uid:
            existing = await self._read(act.resource, _key(act))
            if existing is None or _controller(existing).get("uid") != act.owner_uid:
                return "gone" if existing is None else "foreign"
            uid = existing["uid"]
        preconditions = {"uid": uid, "resourceVersion": act.version}
        options = {
            "propagationPolicy": act.propagation,
            "preconditions": {name: text for name, text in preconditions.items() if text},
        }
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


def _refusal(event: Emit, text: str) -> Emit:
    return replace(event, message=f"{event.message}: {text}", warning=True)


def _ignore(body: Manifest, metadata: Manifest) -> None:
    """The default listener for created objects."""


def _key(act: Write) -> Key:
    if isinstance(act, Create):
        metadata = act.body["metadata"]
        return metadata.get("namespace", ""), metadata["name"]
    return act.namespace, act.name


def _name(act: Write) -> str:
    return shown_key(_key(act))


def _controller(metadata: Manifest) -> Manifest:
    """The owner that controls an object; empty: there is none."""
    owners = metadata.get("ownerReferences") or ()
    return next((one for one in owners if one.get("controller")), {})


def _without_uid(owner: Manifest) -> tuple[Any, ...]:
    return tuple(owner.get(name) for name in ("apiVersion", "kind", "name"))


def _metadata(answer: bytes) -> dict[str, Any] | None:
    """The metadata that caches read, if the answer is an object; None: it is a Status."""
    try:
        found = _ANSWER.decode(answer)
    except UNREADABLE:
        return None
    if found.kind == "Status" or not found.metadata.uid:
        return None
    metadata: dict[str, Any] = msgspec.to_builtins(found.metadata)
    return metadata
