"""Volumes before pods: what volume controllers wait for is written, their work is waited for.

The wait spans several calls of the binder, so that it holds no slot: each says "not yet" until the
watch has shown every claim bound, or until the time is up and all that was written is undone.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pumice.adapters.kubernetes.errors import (
    CONFLICT,
    NOT_FOUND,
    UNPROCESSABLE,
    ApiError,
    KubernetesError,
    one_line,
)
from pumice.adapters.kubernetes.object_index import ObjectIndex
from pumice.adapters.kubernetes.resources import CLAIMS, VOLUMES
from pumice.adapters.kubernetes.results import result_of
from pumice.adapters.kubernetes.session import MERGE, ApiSession, Fence
from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult
from pumice.v1.decision_pb2 import Bind, VolumeChoice
from pumice.v1.storage_pb2 import VOLUME_PHASE_LOST, PersistentVolumeClaim

log = logging.getLogger(__name__)

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_ENCODE: Final = msgspec.json.Encoder().encode
_NOT_YET_SECONDS: Final = 0.25

_Undo = Callable[[], Awaitable[None]]


class _ClaimRef(msgspec.Struct):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _VolumeSpec(msgspec.Struct, rename="camel"):
    claim_ref: _ClaimRef | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Volume(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _VolumeSpec = msgspec.field(default_factory=_VolumeSpec)


_VOLUME: Final = msgspec.json.Decoder(_Volume)


class _VolumeProblem(Exception):  # noqa: N818 - carries a result, not an error
    """The pod cannot have these volumes now."""

    def __init__(self, result: ApplyResult) -> None:
        super().__init__(result.reason)
        self.result = result


@dataclass(slots=True)
class _Attempt:
    """What was written for one pod."""

    node: str
    started: float
    # By claim.
    undo: dict[str, _Undo] = field(default_factory=dict)


class VolumeBinder:
    """Binds or provisions the claims of pods that are about to be bound."""

    def __init__(
        self,
        api: ApiSession,
        index: ObjectIndex,
        clock: Clock,
        metrics: Metrics,
        fence: Fence,
        call_seconds: float,
        limit_seconds: float,
    ) -> None:
        self._api, self._index = api, index
        self._clock, self._metrics, self._fence = clock, metrics, fence
        self._seconds, self._limit = call_seconds, limit_seconds
        self._attempts: dict[str, _Attempt] = {}

    async def prepare(self, order: Bind) -> ApplyResult:
        """DONE: every claim is bound; WAITING: come again; anything else: undone and over."""
        attempt = self._attempts.get(order.uid)
        if attempt is None or attempt.node != order.node:
            attempt = _Attempt(order.node, self._clock.now())
            self._attempts[order.uid] = attempt
        try:
            waiting = [
                choice.claim
                for choice in order.volumes
                if not await self._is_bound(order, choice, attempt)
            ]
        except _VolumeProblem as problem:
            return await self._fail(order.uid, problem.result)
        except KubernetesError as error:
            result = result_of(error)
            if result.code in (ApplyCode.FORBIDDEN, ApplyCode.INVALID):
                return await self._fail(order.uid, result)
            return result
        if not waiting:
            return DONE
        seconds = self._clock.now() - attempt.started
        if seconds > self._limit:
            self._metrics.count("volume_timeouts")
            text = f"{', '.join(waiting)} not bound within {self._limit:g} s"
            return await self._fail(order.uid, ApplyResult(ApplyCode.INVALID, text))
        text = f"waiting for {', '.join(waiting)} to be bound"
        return ApplyResult(ApplyCode.WAITING, text, retry_after_seconds=_NOT_YET_SECONDS)

    async def settle(self, order: Bind, result: ApplyResult) -> None:
        """The pod's own binding came to this."""
        attempt = self._attempts.get(order.uid)
        if attempt is None:
            return
        if result.code is ApplyCode.DONE:
            del self._attempts[order.uid]
        elif result.code in (ApplyCode.FORBIDDEN, ApplyCode.INVALID, ApplyCode.NOT_FOUND):
            await self._fail(order.uid, result)

    async def _fail(self, uid: str, result: ApplyResult) -> ApplyResult:
        attempt = self._attempts.pop(uid)
        for claim, undo in reversed(attempt.undo.items()):
            try:
                await undo()
                self._metrics.count("volume_undos", result="done")
            except KubernetesError as error:
                # Bound meanwhile, or gone: then there is nothing to undo.
                log.warning("claim %s could not be set free: %s", claim, one_line(error))
        return result

    async def _is_bound(self, order: Bind, choice: VolumeChoice, attempt: _Attempt) -> bool:
        claim = self._index.claims.get((order.namespace, choice.claim))
        if claim is None:
            raise _VolumeProblem(
                ApplyResult(ApplyCode.INVALID, f"there is no claim {choice.claim}")
            )
        if claim.phase == VOLUME_PHASE_LOST:
            raise _VolumeProblem(
                ApplyResult(ApplyCode.INVALID, f"claim {choice.claim} has lost its volume")
            )
        if claim.volume_name and claim.bind_completed:
            if choice.volume_name and claim.volume_name != choice.volume_name:
                text = f"claim {choice.claim} was bound to {claim.volume_name}"
                raise _VolumeProblem(ApplyResult(ApplyCode.INVALID, text))
            return True
        if choice.claim in attempt.undo:
            self._check_provisioning(claim, choice, attempt)
            return False
        if choice.volume_name:
            attempt.undo[choice.claim] = await self._reserve(claim, choice.volume_name)
        else:
            attempt.undo[choice.claim] = await self._select(claim, order.node)
        return False

    def _check_provisioning(
        self, claim: PersistentVolumeClaim, choice: VolumeChoice, attempt: _Attempt
    ) -> None:
        """A provisioner that cannot serve the node takes the annotation away."""
        if choice.volume_name or claim.selected_node == attempt.node:
            return
        # Our own write may not have come back from the watch yet.
        if self._clock.now() - attempt.started > 2 * self._seconds:
            text = f"the provisioner gave claim {choice.claim} up for node {attempt.node}"
            raise _VolumeProblem(ApplyResult(ApplyCode.INVALID, text))

    # A volume that exists.

    async def _reserve(self, claim: PersistentVolumeClaim, name: str) -> _Undo:
        path = VOLUMES.path(name=name)
        volume = await self._read_volume(name)
        ref = volume.spec.claim_ref
        if ref is not None and (ref.uid or claim.uid) == claim.uid and ref.name == claim.name:
            if ref.uid == claim.uid:
                # Written by an earlier try of which the answer was lost, or by an administrator.
                return _nothing
        elif ref is not None:
            text = f"volume {name} is meant for claim {ref.namespace}/{ref.name}"
            raise _VolumeProblem(ApplyResult(ApplyCode.INVALID, text))
        claim_ref = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
        }
        await self._patch(
            path,
            {
                "metadata": {
                    "resourceVersion": volume.metadata.resource_version,
                    "annotations": {BOUND_BY_CONTROLLER: "yes"},
                },
                "spec": {"claimRef": claim_ref},
            },
        )

        async def undo() -> None:
            now = await self._read_volume(name)
            held = self._index.claims.get((claim.namespace, claim.name))
            is_taken = held is not None and held.volume_name == name
            if now.spec.claim_ref is None or now.spec.claim_ref.uid != claim.uid or is_taken:
                return
            await self._patch(
                path,
                {
                    "metadata": {
                        "resourceVersion": now.metadata.resource_version,
                        "annotations": {BOUND_BY_CONTROLLER: None},
                    },
                    "spec": {"claimRef": None},
                },
            )

        return undo

    async def _read_volume(self, name: str) -> _Volume:
        try:
            body = await self._api.call("GET", VOLUMES.path(name=name), seconds=self._seconds)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            text = f"there is no volume {name}"
            raise _VolumeProblem(ApplyResult(ApplyCode.INVALID, text)) from error
        return _VOLUME.decode(body)

    # A volume that is yet to be made.

    async def _select(self, claim: PersistentVolumeClaim, node: str) -> _Undo:
        path = CLAIMS.path(claim.namespace, claim.name)
        if claim.selected_node != node:
            annotations = {SELECTED_NODE: node}
            await self._patch(path, {"metadata": {"uid": claim.uid, "annotations": annotations}})

        async def undo() -> None:
            held = self._index.claims.get((claim.namespace, claim.name))
            if held is not None and held.volume_name:
                return
            gone = {"metadata": {"uid": claim.uid, "annotations": {SELECTED_NODE: None}}}
            await self._patch(path, gone)

        return undo

    async def _patch(self, path: str, patch: dict[str, Any]) -> None:
        try:
            await self._api.call(
                "PATCH",
                path,
                _ENCODE(patch),
                content_type=MERGE,
                seconds=self._seconds,
                fence=self._fence,
            )
        except ApiError as error:
            if error.status == UNPROCESSABLE:
                raise _VolumeProblem(ApplyResult(ApplyCode.INVALID, one_line(error))) from error
            if error.status in (CONFLICT, NOT_FOUND):
                # Somebody changed it: look again.
                raise ApiError(CONFLICT, error.reason, error.message) from error
            raise


async def _nothing() -> None:
    """Nothing was written, so nothing is to be undone."""
