"""The ready containers, the status and the restarts of a pod, as kubectl shows them."""

from collections.abc import Iterator
from typing import Any

from pumice.controllers.runtime.objects import Manifest
from pumice.controllers.vcctl.tables import age


def ready_of(pod: Manifest) -> str:
    """The number of ready containers and of all containers; both include sidecars."""
    names = [one["name"] for one in pod["spec"].get("containers") or ()]
    names += [one["name"] for one in _sidecars(pod)]
    ready = {one["name"] for one in _statuses(pod) if one.get("ready")}
    return f"{sum(name in ready for name in names)}/{len(names)}"


def restarts_of(pod: Manifest) -> str:
    count = sum(one.get("restartCount", 0) for one in _statuses(pod))
    ended = [
        (one.get("lastState") or {}).get("terminated", {}).get("finishedAt")
        for one in _statuses(pod)
    ]
    last = max(filter(None, ended), default="")
    return f"{count} ({age(last)} ago)" if count and last else str(count)


def status_of(pod: Manifest) -> str:
    """The phase, or a more specific reason from the pod or its containers."""
    status = pod.get("status") or {}
    reason = status.get("reason") or status.get("phase") or "Unknown"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    reason = _initializing(pod) or _of_containers(status, reason)
    if pod["metadata"].get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def _of_containers(status: dict[str, Any], reason: str) -> str:
    has_running = False
    for one in reversed(status.get("containerStatuses") or []):
        state = one.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            reason = _ending(ended)
        elif one.get("ready") and "running" in state:
            has_running = True
    if reason == "Completed" and has_running:
        is_ready = any(
            one.get("type") == "Ready" and one.get("status") == "True"
            for one in status.get("conditions") or ()
        )
        return "Running" if is_ready else "NotReady"
    return str(reason)


def _initializing(pod: Manifest) -> str:
    """Why the pod is not initialized; "": it is initialized."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    sidecars = {one["name"] for one in _sidecars(pod)}
    total = len(pod["spec"].get("initContainers") or ())
    for index, one in enumerate(statuses):
        state = one.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if one["name"] in sidecars and one.get("started"):
            continue
        if ended is not None:
            return f"Init:{_ending(ended)}"
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{total}"
    return ""


def _ending(ended: dict[str, Any]) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    signal = ended.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{ended.get('exitCode', 0)}"


def _statuses(pod: Manifest) -> Iterator[dict[str, Any]]:
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _sidecars(pod: Manifest) -> list[dict[str, Any]]:
    return [
        one
        for one in pod["spec"].get("initContainers") or ()
        if one.get("restartPolicy") == "Always"
    ]
