"""Finds the class of a pod: equal specs share a class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pumice.core.cache.entries import csi_resource
from pumice.core.cache.tasks import TaskClass
from pumice.core.cache.validation import check_pod
from pumice.core.model.pod import Pod, PodSpec

if TYPE_CHECKING:
    from pumice.core.cache.cluster import ClusterCache

_Counts = tuple[tuple[str, int], ...]


class ClassRegistry:
    """Task classes by spec and, for pods with volumes, by the number of volumes to attach."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        # The key of pods without volumes, which most pods are, is the spec.
        self._classes: dict[PodSpec | tuple[PodSpec, _Counts], TaskClass] = {}
        # The number of classes that were made so far.
        self.made = 0
        # Classes that lost their last task since the last session, by number.
        self._unused: dict[int, TaskClass] = {}

    def __iter__(self) -> Iterator[TaskClass]:
        return iter(self._classes.values())

    def knows(self, pod: Pod) -> bool:
        """Whether a class has the pod's spec; then the spec is valid."""
        return pod.spec in self._classes

    def check(self, pod: Pod) -> TaskClass | None:
        """Raises for an invalid pod; returns its class where the spec alone tells the class."""
        class_ = self._classes.get(pod.spec)
        if class_ is None or not pod.uid or not pod.name:
            check_pod(pod)
        return class_

    def class_of(self, pod: Pod) -> TaskClass:
        spec = pod.spec
        # The number of volumes to attach depends on claims that may still change.
        counts = self._volume_counts(pod) if spec.volumes else ()
        key = (spec, counts) if spec.volumes else spec
        class_ = self._classes.get(key)
        if class_ is None:
            class_ = self._classes[key] = self._make(spec, counts)
        return class_

    def _make(self, spec: PodSpec, extra: _Counts) -> TaskClass:
        self.made += 1
        ignored = self._cache.settings.ignored_resources
        needed = tuple(item for item in spec.requests if item[0] not in ignored)
        class_ = self._cache.class_type(self.made, spec, (*needed, *extra), extra)
        self._unused[class_.number] = class_
        return class_

    def _volume_counts(self, pod: Pod) -> _Counts:
        """The number of claims for each driver that attaches them; unknown drivers are not counted."""
        counts: dict[str, int] = {}
        for volume in pod.spec.volumes:
            driver = self._cache.storage.driver_of(f"{pod.namespace}/{volume.claim_name}")
            if driver and driver not in self._cache.settings.ignored_provisioners:
                name = csi_resource(driver)
                counts[name] = counts.get(name, 0) + 1
        return tuple(sorted(counts.items()))

    # Classes without tasks.

    def count(self, class_: TaskClass, number: int) -> None:
        """Counts tasks of a class that were added, or removed where the number is negative."""
        class_.task_count += number
        if class_.task_count:
            self._unused.pop(class_.number, None)
        else:
            self._unused[class_.number] = class_

    def forget_unused(self) -> list[int]:
        """Forgets the classes that no task has any more; returns their numbers."""
        gone, self._unused = self._unused, {}
        for class_ in gone.values():
            del self._classes[(class_.spec, class_.extra) if class_.spec.volumes else class_.spec]
        return list(gone)
