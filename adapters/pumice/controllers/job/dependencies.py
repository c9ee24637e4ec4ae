"""dependsOn of tasks: whether the tasks that a task depends on are ready."""

from collections import Counter
from collections.abc import Iterable

from pumice.controllers.dependency_graph import unsatisfiable
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


def has_dependencies(spec: JobSpec) -> bool:
    """Whether a task depends on others."""
    return any(task.depends_on is not None for task in spec.tasks or ())


def _names(task: Task) -> list[str]:
    return (task.depends_on.name or []) if task.depends_on is not None else []


def _needs_any(task: Task) -> bool:
    """Whether one ready task of several is enough."""
    return (
        task.depends_on is not None and len(_names(task)) > 1 and task.depends_on.iteration == "any"
    )


def first_pods(spec: JobSpec) -> int:
    """How many pods are created before any pod runs."""
    if not has_dependencies(spec):
        return spec.total
    dependencies = Dependencies(spec, ())
    return sum(task.replicas for task in spec.tasks or () if dependencies.is_released(task))


def never_released(spec: JobSpec) -> list[str]:
    """Tasks that depend on themselves, directly or indirectly, or on tasks that do not exist."""
    tasks = spec.tasks or ()
    if not has_dependencies(spec):
        return []
    needs_any = {task.name for task in tasks if _needs_any(task)}
    return unsatisfiable({task.name: _names(task) for task in tasks}, needs_any)
