"""dependsOn: whether the tasks that a task waits for are ready."""

from collections.abc import Iterable

from pumice.controllers.job.types import JobSpec, Pod, Task


def is_released(task: Task, spec: JobSpec, pods: Iterable[Pod]) -> bool:
    """Whether the pods of a task may be created."""
    names = (task.depends_on.name or []) if task.depends_on is not None else []
    if task.depends_on is None or not names:
        return True
    held = list(pods)
    ready = [_is_ready(name, spec, held) for name in names]
    if len(ready) > 1 and task.depends_on.iteration == "any":
        return any(ready)
    return all(ready)


def _is_ready(name: str, spec: JobSpec, pods: list[Pod]) -> bool:
    task = next((one for one in spec.tasks or () if one.name == name), None)
    if task is None:
        return False
    ready = sum(
        pod.task == name and pod.is_ready and not pod.metadata.is_terminating for pod in pods
    )
    return ready >= (task.min_available or 0)


def first_pods(spec: JobSpec) -> int:
    """How many pods are created before any pod runs."""
    return sum(task.replicas for task in spec.tasks or () if is_released(task, spec, ()))


def never_released(spec: JobSpec) -> list[str]:
    """Tasks that wait for themselves, directly or through others, or for tasks that do not exist."""
    tasks = {task.name: task for task in spec.tasks or ()}
    free: set[str] = set()
    while True:
        more = {name for name, task in tasks.items() if name not in free and _can(task, free)}
        if not more:
            return [name for name in tasks if name not in free]
        free |= more


def _can(task: Task, free: set[str]) -> bool:
    names = (task.depends_on.name or []) if task.depends_on is not None else []
    if task.depends_on is not None and len(names) > 1 and task.depends_on.iteration == "any":
        return any(name in free for name in names)
    return all(name in free for name in names)
