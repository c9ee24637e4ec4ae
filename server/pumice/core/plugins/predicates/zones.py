"""Zones and regions of volumes."""

from __future__ import annotations

import numpy as np

from pumice.core.cache.labels import LabelColumn
from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Mask, Refusal
from pumice.core.session.session import Session

CONFLICT = "node(s) had no available volume zone"

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
_OLD_REGION = "failure-domain.beta.kubernetes.io/region"
# What a node may have instead of an old label.
_NEW = {_OLD_ZONE: _ZONE, _OLD_REGION: _REGION, _ZONE: _ZONE, _REGION: _REGION}

_Places = list[tuple[str, frozenset[str]]]


class VolumeZones:
    """Compares labels of bound volumes with labels of nodes; only claims named by the pod."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def why_not_anywhere(self, task: Task) -> str | None:
        return self._places(task)[1]

    def refusals(self, task: Task) -> list[Refusal]:
        places, problem = self._places(task)
        if problem is not None or not places:
            return []
        column = self._session.labels.column
        zoned = np.zeros(len(self._session.table), dtype=np.bool_)
        for key in _NEW:
            zoned |= column(key).present
        good = np.ones(len(zoned), dtype=np.bool_)
        for key, values in places:
            own, new = column(key), column(_NEW[key])
            good &= np.where(own.present, _among(own, values), _among(new, values))
        return [Refusal(CONFLICT, zoned & ~good, unresolvable=True)]

    def _places(self, task: Task) -> tuple[_Places, str | None]:
        """Label and allowed values of each bound volume, or a problem."""
        cache, places = self._session.cache, []
        for volume in task.pod.spec.volumes:
            if volume.ephemeral:
                continue
            claim = cache.storage.claims.get(f"{task.pod.namespace}/{volume.claim_name}")
            if claim is None:
                return [], f'persistentvolumeclaim "{volume.claim_name}" not found'
            if not claim.volume_name:
                problem = self._why_unbound(claim.storage_class_name or "")
                if problem is not None:
                    return [], problem
                continue
            bound = cache.storage.volumes.get(claim.volume_name)
            if bound is None:
                return [], f'persistentvolume "{claim.volume_name}" not found'
            for key in _NEW:
                values = frozenset(v.strip() for v in bound.labels.get(key, "").split("__"))
                if key in bound.labels and "" not in values:
                    places.append((key, values))
        return places, None

    def _why_unbound(self, class_name: str) -> str | None:
        if not class_name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        storage_class = self._session.cache.storage.classes.get(class_name)
        if storage_class is None:
            return f'storageclass.storage.k8s.io "{class_name}" not found'
        if storage_class.wait_for_first_consumer:
            return None
        return "PersistentVolume had no name"


def _among(column: LabelColumn, values: frozenset[str]) -> Mask:
    answers = [value in values for value in column.values]
    # The last entry answers for nodes without the label: code -1 reads it.
    return np.array([*answers, False], dtype=np.bool_)[column.codes]
