"""The text of `pumice job view`."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pumice.controllers.runtime.objects import Manifest
from pumice.controllers.vcctl.tables import age, local_time
from pumice.manifests.errors import FieldError
from pumice.manifests.quantities import nanos

_COUNTERS: Final = (
    ("Succeeded", "succeeded"),
    ("Pending", "pending"),
    ("Running", "running"),
    ("Failed", "failed"),
    ("Terminating", "terminating"),
    ("Unknown", "unknown"),
    ("RetryCount", "retryCount"),
    ("Min Available", "minAvailable"),
    ("Version", "version"),
)
# Plugins that are shown for every job, before all others.
_PLUGINS: Final = ("env", "ssh")
_ANNOTATIONS: Final = (
    ("Cri . Cci . Io / Container - Type:", "cri.cci.io/container-type"),
    ("Kubernetes . Io / Availablezone:", "kubernetes.io/availablezone"),
    ("Network . Alpha . Kubernetes . Io / Network:", "network.alpha.kubernetes.io/network"),
)
_NANO: Final = 10**9
# Units with their sizes, in descending order.
_BINARY: Final = tuple(
    (f"{letter}i", 1024**power) for power, letter in zip(range(6, 0, -1), "EPTGMK", strict=True)
)
_DECIMAL: Final = tuple(
    (letter, 10**power)
    for power, letter in zip(range(27, -1, -3), (*"EPTGMk", "", *"mun"), strict=True)
)


def described(job: Manifest) -> Iterator[str]:
    """The lines about a job, without those about its events."""
    metadata, spec, status = job["metadata"], job.get("spec", {}), job.get("status", {})
    yield from _lines(
        0,
        ("Name:       ", metadata["name"]),
        ("Namespace:  ", metadata.get("namespace", "")),
        ("Labels:     ", _map(metadata.get("labels"))),
        ("Annotations:", _map(metadata.get("annotations"))),
        ("API Version:", job.get("apiVersion", "")),
        ("Kind:       ", job.get("kind", "")),
    )
    yield "Metadata:"
    yield from _lines(
        1,
        ("Creation Timestamp:", local_time(metadata.get("creationTimestamp"))),
        ("Generate Name:     ", metadata.get("generateName", "")),
        ("Generation:        ", metadata.get("generation", 0)),
        ("Resource Version:  ", metadata.get("resourceVersion", "")),
        ("UID:               ", metadata.get("uid", "")),
    )
    yield "Spec:"
    yield from _spec(spec)
    yield "Status:"
    yield from _status(status)


def _spec(spec: Manifest) -> Iterator[str]:
    yield from _lines(1, ("Min Available:     ", spec.get("minAvailable", 0)))
    yield "  Plugins:"
    plugins = spec.get("plugins") or {}
    for name in (*_PLUGINS, *sorted(plugins.keys() - set(_PLUGINS))):
        yield f"    {name.capitalize()}:\t[{' '.join(plugins.get(name) or ())}]"
    yield from _lines(1, ("Scheduler Name:    ", spec.get("schedulerName", "")))
    yield "  Tasks:"
    for task in spec.get("tasks") or ():
        yield from _lines(
            2, ("Name:", task.get("name", "")), ("Replicas:", task.get("replicas", 0))
        )
        yield "    Template:"
        template = task.get("template") or {}
        yield from _template_metadata(template.get("metadata") or {})
        yield "      Spec:"
        yield "        Containers:"
        pod = template.get("spec") or {}
        for container in pod.get("containers") or ():
            yield from _container(container)
        yield "        Image Pull Secrets:"
        for secret in pod.get("imagePullSecrets") or ():
            yield f"          Name:     \t{secret.get('name', '')}"
        yield f"        Restart Policy:   \t{pod.get('restartPolicy', '')}"


def _template_metadata(metadata: Manifest) -> Iterator[str]:
    yield "      Metadata:"
    yield "        Annotations:"
    annotations = metadata.get("annotations") or {}
    for title, key in _ANNOTATIONS:
        yield f"          {title:<44}\t{annotations.get(key, '')}"
    yield f"        Creation Timestamp:\t{local_time(metadata.get('creationTimestamp'))}"


def _container(container: Manifest) -> Iterator[str]:
    yield "          Command:"
    for word in container.get("command") or ():
        yield f"            {word}"
    yield f"          Image:\t{container.get('image', '')}"
    yield f"          Name: \t{container.get('name', '')}"
    yield "          Ports:"
    for port in container.get("ports") or ():
        yield f"            Container Port:\t{port.get('containerPort', '')}"
        yield f"            Name:          \t{port.get('name', '')}"
    yield "          Resources:"
    resources = container.get("resources") or {}
    for title, key in (("Limits", "limits"), ("Requests", "requests")):
        amounts = resources.get(key) or {}
        yield f"            {title}:"
        yield f"              Cpu:   \t{shown_amount(amounts.get('cpu', 0))}"
        yield f"              Memory:\t{shown_amount(amounts.get('memory', 0))}"
        for name in sorted(set(amounts) - {"cpu", "memory"}):
            yield f"              {name}:\t{shown_amount(amounts[name])}"
    yield f"            Working Dir:\t{container.get('workingDir', '')}"


def _status(status: Manifest) -> Iterator[str]:
    for title, key in _COUNTERS:
        if status.get(key, 0) > 0:
            yield f"  {title + ':':<14}\t{status[key]}"
    yield "  State:"
    yield f"    Phase:\t{(status.get('state') or {}).get('phase', '')}"
    if resources := status.get("controlledResources"):
        yield "  Controlled Resources:"
        for key in sorted(resources):
            yield f"    {key}: \t{resources[key]}"
    if conditions := status.get("conditions"):
        yield "  Conditions:"
        yield "    Status\tTransitionTime"
        for one in conditions:
            yield f"    {one.get('status', '')} \t{local_time(one.get('lastTransitionTime'))} "


def shown_events(events: Sequence[Manifest]) -> Iterator[str]:
    """The lines about the events of an object."""
    if not events:
        yield "Events: \t<none>"
        return
    yield "Events:"
    yield _event_line("Type", "Reason", "Age", "Form", "Message")
    yield _event_line(*["-------"] * 5)
    for one in events:
        first, last, count = one.get("firstTimestamp"), one.get("lastTimestamp"), one.get("count")
        when = age(first or one.get("eventTime"))
        if count and count > 1:
            when = f"{age(last)} (x{count} over {age(first)})"
        source = one.get("source") or {}
        origin = ", ".join(filter(None, (source.get("component"), source.get("host"))))
        origin = origin or one.get("reportingComponent", "")
        message = str(one.get("message", "")).strip()
        yield _event_line(one.get("type", ""), one.get("reason", ""), when, origin, message)


def _event_line(kind: str, reason: str, when: str, origin: str, message: str) -> str:
    return f"{kind:<15}\t{reason:<40}\t{when:<30}\t{origin:<40}\t{message}"


def _lines(level: int, *fields: tuple[str, Any]) -> Iterator[str]:
    for title, text in fields:
        yield f"{'  ' * level}{title}\t{text}"


def _map(values: dict[str, str] | None) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":")) if values else "<none>"


def shown_amount(amount: str | int | float) -> str:
    """An amount in Kubernetes' canonical form: in the largest unit that leaves a whole number."""
    try:
        billionths = nanos(amount)
    except FieldError:
        return str(amount)
    if billionths == 0:
        return "0"
    value, rest = divmod(billionths, _NANO)
    if str(amount).endswith("i") and value >= 1024 and not rest:
        return _in_units(value, (*_BINARY, ("", 1)))
    return _in_units(billionths, _DECIMAL)


def _in_units(value: int, units: tuple[tuple[str, int], ...]) -> str:
    unit, size = next(one for one in units if value % one[1] == 0)
    return f"{value // size}{unit}"
