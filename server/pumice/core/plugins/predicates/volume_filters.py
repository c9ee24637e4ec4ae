"""Filters of volumes: the number of volumes that a node attaches, and the zones of bound volumes."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from pumice.core.cache.pods import Counts
from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Mask, Refusal
from pumice.core.model.memo import Memo
from pumice.core.model.storage import PersistentVolumeClaim
from pumice.core.plugins.predicates.filters import TaskFilter
from pumice.core.session.session import Session

EXCEEDED = "node(s) exceed max volume count"

# A driver, and the handle of a volume of that driver.
_Handle = tuple[str, str]
NO_ZONE = "node(s) had no available volume zone"
_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
_OLD_REGION = "failure-domain.beta.kubernetes.io/region"
# The current name of each label.
_CURRENT = {_OLD_ZONE: _ZONE, _OLD_REGION: _REGION, _ZONE: _ZONE, _REGION: _REGION}
_AllowedValues = list[tuple[str, frozenset[str]]]


class VolumeLimits(TaskFilter):
    """Refuses nodes that would exceed the volume limit of a CSI driver."""

    def __init__(self, session: Session) -> None:
        self._session = session
        count = len(session.table)
        # By driver and row: the limit, negative where there is none; and the number of attached volumes.
        self._limits = Memo[str, Counts](lambda _: np.full(count, -1, dtype=np.int64))
        self._attached = Memo[str, Counts](lambda _: np.zeros(count, dtype=np.int64))
        # Volumes of pods on nodes: handle -> row -> number of pods.
        self._users: defaultdict[_Handle, Counter[int]] = defaultdict(Counter)
        # The rows where a volume is attached, even if no pod there uses it.
        self._attachments: defaultdict[_Handle, set[int]] = defaultdict(set)
        self._position = -1

    def refusals(self, task: Task) -> list[Refusal]:
        rows = len(self._session.table)
        everywhere = np.ones(rows, dtype=np.bool_)
        handles: dict[_Handle, None] = {}
        for volume, claim in self._session.cache.storage.claims_of(task.pod):
            if claim is None:
                key = f"{task.pod.namespace}/{volume.claim_name}"
                missing = f'persistentvolumeclaim "{volume.claim_name}" not found'
                return [Refusal(f"looking up PVC {key}: {missing}", everywhere, unresolvable=True)]
            if volume.ephemeral and claim.owner_uid != task.pod.uid:
                return [Refusal(not_owner(claim, task), everywhere, unresolvable=True)]
            handle = self._handle(claim)
            if handle is not None:
                handles[handle] = None
        return [Refusal(EXCEEDED, self._exceeded(handles), unresolvable=False)] if handles else []

    def _exceeded(self, handles: dict[_Handle, None]) -> Mask:
        """The nodes that would exceed a limit with these volumes."""
        self._sync()
        exceeded = np.zeros(len(self._session.table), dtype=np.bool_)
        for driver in dict.fromkeys(driver for driver, _ in handles):
            limits = self._limits.get(driver)
            if limits is None:
                continue
            new = np.zeros(len(exceeded), dtype=np.int64)
            for handle in handles:
                if handle[0] == driver:
                    new += 1
                    # A volume that a pod on the node uses already is attached once for both pods.
                    new[list(self._users.get(handle, ()))] -= 1
            exceeded |= (new > 0) & (limits >= 0) & (self._attached[driver] + new > limits)
        return exceeded

    def _sync(self) -> None:
        pods = self._session.cache.pods
        if self._position < 0:
            self._build()
            for row, tasks in pods.with_volumes.items():
                for task in tasks.values():
                    self._change(row, task, 1)
        else:
            for row, task, sign in pods.volume_log[self._position :]:
                self._change(row, task, sign)
        self._position = len(pods.volume_log)

    def _build(self) -> None:
        cache, table = self._session.cache, self._session.table
        for node in cache.storage.csi_nodes:
            row = table.row_of(node.name)
            if row is not None:
                for driver, limit in node.driver_limits:
                    self._limits[driver][row] = limit
        for attachment in cache.storage.attachments:
            row = table.row_of(attachment.node_name)
            volume = cache.storage.volumes.get(attachment.volume_name)
            if row is None or volume is None or not volume.csi_driver or not attachment.attacher:
                continue
            rows = self._attachments[attachment.attacher, volume.csi_handle]
            if row not in rows:
                rows.add(row)
                self._attached[attachment.attacher][row] += 1

    def _change(self, row: int, task: Task, sign: int) -> None:
        for _, claim in self._session.cache.storage.claims_of(task.pod):
            handle = None if claim is None else self._handle(claim)
            if handle is None:
                continue
            users = self._users[handle]
            first_or_last = users[row] in (0, -sign)
            users[row] += sign
            if not users[row]:
                del users[row]
            if first_or_last and row not in self._attachments[handle]:
                self._attached[handle[0]][row] += sign

    def _handle(self, claim: PersistentVolumeClaim) -> _Handle | None:
        """Driver and handle of a claim's volume, which may not exist yet; None: it has no CSI driver."""
        cache = self._session.cache
        volume = cache.storage.volumes.get(claim.volume_name) if claim.volume_name else None
        if volume is not None:
            known = volume.csi_driver and volume.csi_handle
            return (volume.csi_driver, volume.csi_handle) if known else None
        storage_class = cache.storage.classes.get(claim.storage_class_name or "")
        if storage_class is None or not storage_class.provisioner:
            return None
        # The handle of an existing volume does not begin with this character.
        return storage_class.provisioner, f"\0{claim.key}"


def not_owner(claim: PersistentVolumeClaim, task: Task) -> str:
    return f"PVC {claim.key} was not created for pod {task.key} (pod is not owner)"


class VolumeZones(TaskFilter):
    """Compares the zone and region of bound volumes with those of nodes, without ephemeral volumes."""

    name = "VolumeZone"

    def __init__(self, session: Session) -> None:
        self._session = session

    def why_not_anywhere(self, task: Task) -> str | None:
        return self._allowed(task)[1]

    def refusals(self, task: Task) -> list[Refusal]:
        allowed, problem = self._allowed(task)
        if problem is not None or not allowed:
            return []
        column = self._session.labels.column
        zoned = np.zeros(len(self._session.table), dtype=np.bool_)
        for key in _CURRENT:
            zoned |= column(key).present
        matching = np.ones(len(zoned), dtype=np.bool_)
        for key, values in allowed:
            own, current = column(key), column(_CURRENT[key])
            matching &= np.where(own.present, own.among(values), current.among(values))
        return [Refusal(NO_ZONE, zoned & ~matching, unresolvable=True)]

    def _allowed(self, task: Task) -> tuple[_AllowedValues, str | None]:
        """The labels of bound volumes with their allowed values, or a problem."""
        storage, allowed = self._session.cache.storage, []
        for volume, claim in storage.claims_of(task.pod):
            if volume.ephemeral:
                continue
            if claim is None:
                return [], f'persistentvolumeclaim "{volume.claim_name}" not found'
            if not claim.volume_name:
                problem = self._why_unbound(claim.storage_class_name or "")
                if problem is not None:
                    return [], problem
                continue
            bound = storage.volumes.get(claim.volume_name)
            if bound is None:
                return [], f'persistentvolume "{claim.volume_name}" not found'
            for key in _CURRENT:
                values = frozenset(v.strip() for v in bound.labels.get(key, "").split("__"))
                if key in bound.labels and "" not in values:
                    allowed.append((key, values))
        return allowed, None

    def _why_unbound(self, class_name: str) -> str | None:
        if not class_name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        storage_class = self._session.cache.storage.classes.get(class_name)
        if storage_class is None:
            return f'storageclass.storage.k8s.io "{class_name}" not found'
        if storage_class.wait_for_first_consumer:
            return None
        return "PersistentVolume had no name"
