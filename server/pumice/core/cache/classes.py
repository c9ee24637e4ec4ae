"""Finds the class of a pod: specs that are equal share one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.core.cache.nodes import csi_resource
from pumice.core.cache.tasks import TaskClass
from pumice.core.cache.validation import check_pod
from pumice.core.model.pod import Pod, PodSpec

if TYPE_CHECKING:
    from pumice.core.cache.cluster import ClusterCache

# Beyond so many remembered specs the ones without tasks are forgotten.
_MANY_SPECS = 10_000


class ClassRegistry:
    """Task classes by spec, and by what else the request depends on."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._classes: dict[object, TaskClass] = {}
        # Equal specs are usually the same object: looked up by identity before being compared.
        self._by_identity: dict[int, tuple[PodSpec, TaskClass]] = {}
        self._made = 0

    def check(self, pod: Pod) -> None:
        if id(pod.spec) not in self._by_identity or not pod.uid or not pod.name:
            check_pod(pod)

    def class_of(self, pod: Pod) -> TaskClass:
        known = self._by_identity.get(id(pod.spec))
        if known is not None:
            return known[1]
        if pod.spec.volumes:
            # The number of volumes to attach depends on claims that may still change.
            return self._class(pod.spec, self._volume_counts(pod))
        class_ = self._class(pod.spec, ())
        self._by_identity[id(pod.spec)] = (pod.spec, class_)
        return class_

    def _class(self, spec: PodSpec, extra: tuple[tuple[str, int], ...]) -> TaskClass:
        key = (spec, extra)
        class_ = self._classes.get(key)
        if class_ is None:
            self._made += 1
            class_ = TaskClass(self._made, spec, (*spec.requests, *extra))
            self._classes[key] = class_
            self._cache.table.want_class(class_)
        return class_

    def _volume_counts(self, pod: Pod) -> tuple[tuple[str, int], ...]:
        """One unit a claim of the driver that will attach it; unknown drivers count nothing."""
        counts: dict[str, int] = {}
        for volume in pod.spec.volumes:
            driver = self._driver(f"{pod.namespace}/{volume.claim_name}")
            if driver and driver not in self._cache.settings.ignored_provisioners:
                name = csi_resource(driver)
                counts[name] = counts.get(name, 0) + 1
        return tuple(sorted(counts.items()))

    def _driver(self, claim_key: str) -> str:
        cache = self._cache
        claim = cache.claims.get(claim_key)
        if claim is None:
            return ""
        if claim.volume_name:
            volume = cache.volumes.get(claim.volume_name)
            return volume.csi_driver if volume is not None else ""
        storage_class = cache.storage_classes.get(claim.storage_class_name or "")
        if storage_class is None:
            return ""
        return storage_class.csi_driver_name or storage_class.provisioner

    def prune(self) -> None:
        """Forgets specs that no task has any more, when there are many."""
        if len(self._classes) <= _MANY_SPECS:
            return
        used = {id(task.class_) for task in self._cache.tasks.values()}
        self._classes = {k: c for k, c in self._classes.items() if id(c) in used}
        self._by_identity = {k: v for k, v in self._by_identity.items() if id(v[1]) in used}
