"""dependsOn: whether the tasks that a task waits for are ready."""

from collections import Counter
from collections.abc import Iterable

from pumice.controllers.job.types import JobSpec, Pod, Task


class Dependencies:
    """The ready pods of each task, counted once."""

    def __init__(self, spec: JobSpec, pods: Iterable[Pod]) -> None:
        self._tasks = {task.name: task for task in spec.tasks or ()}
        self._ready = Counter(
            pod.task for pod in pods if pod.is_ready and not pod.metadata.is_terminating
        )

    def is_released(self, task: Task) -> bool:
        """Whether the pods of a task may be created."""
        ready = map(self._is_ready, _names(task))
        return any(ready) if _needs_any(task) else all(ready)

    def _is_ready(self, name: str) -> bool:
        task = self._tasks.get(name)
        return task is not None and self._ready[name] >= (task.min_available or 0)


def _names(task: Task) -> list[str]:
    return (task.depends_on.name or []) if task.depends_on is not None else []


def _needs_any(task: Task) -> bool:
    """Whether one of several tasks is enough."""
    return (
        task.depends_on is not None and len(_names(task)) > 1 and task.depends_on.iteration == "any"
    )


def first_pods(spec: JobSpec) -> int:
    """How many pods are created before any pod runs."""
    dependencies = Dependencies(spec, ())
    return sum(task.replicas for task in spec.tasks or () if dependencies.is_released(task))


def never_released(spec: JobSpec) -> list[str]:
    """Tasks that wait for themselves, directly or through others, or for tasks that do not exist."""
    tasks = {task.name: task for task in spec.tasks or ()}
    missing: dict[str, int] = {}
    dependents: dict[str, list[str]] = {}
    for name, task in tasks.items():
        wanted = set(_names(task))
        missing[name] = 1 if _needs_any(task) else len(wanted)
        for one in wanted:
            dependents.setdefault(one, []).append(name)
    free = [name for name in tasks if not missing[name]]
    # The list grows while it is read.
    for released in free:
        for name in dependents.get(released, ()):
            missing[name] -= 1
            if not missing[name]:
                free.append(name)
    released_names = set(free)
    return [name for name in tasks if name not in released_names]
