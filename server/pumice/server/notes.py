"""What each line of a scheduler configuration does, in a sentence."""

from __future__ import annotations

from pumice.server.conf_text import ConfText, parse
from pumice.v1 import inspection_service_pb2

ACTIONS = {
    "enqueue": "lets pending jobs in as far as the cluster has room for them",
    "allocate": "places the pods of jobs that were let in, gang by gang",
    "backfill": "places pods that ask for nothing",
    "preempt": "evicts pods of lower priority in the same queue",
    "reclaim": "takes back what other queues hold above their share",
    "gangpreempt": "evicts whole gangs of lower priority in the same queue",
    "gangreclaim": "takes whole gangs back from queues above their share",
    "shuffle": "evicts running pods that plugins want moved",
}
PLUGINS = {
    "binpack": "prefers nodes that are already full",
    "capacity": "gives queues what they deserve, as written in them",
    "conformance": "keeps critical pods from being evicted",
    "drf": "orders jobs by their dominant share",
    "gang": "holds a job back until enough of its pods fit at once",
    "nodeorder": "scores nodes as Kubernetes does",
    "overcommit": "lets in more than there is room for, by a factor",
    "predicates": "filters nodes as Kubernetes does",
    "priority": "orders jobs and pods by priority",
    "proportion": "divides the cluster among queues by weight",
    "resourcequota": "holds jobs back that their namespace's quota does not admit",
    "sla": "lets jobs in that waited for long enough",
}


def notes_of(text: str) -> list[inspection_service_pb2.ConfigurationNote]:
    """For a text that was found valid; the built-in default has no lines."""
    if not text.strip():
        return []
    parsed = parse(text)
    data = parsed.data if isinstance(parsed.data, dict) else {}
    notes = [
        _note(parsed, ("actions",), f"{word}: {ACTIONS.get(word, 'an action of your own')}")
        for word in (part.strip() for part in str(data.get("actions", "")).split(","))
        if word
    ]
    for number, tier in enumerate(data.get("tiers") or ()):
        for place, plugin in enumerate(tier.get("plugins") or ()):
            path = ("tiers", number, "plugins", place)
            name = str(plugin.get("name"))
            meaning = f"{name}: {PLUGINS.get(name, 'a plugin of your own')}"
            notes.append(_note(parsed, path, meaning))
    return notes


def _note(
    parsed: ConfText, path: tuple[str | int, ...], meaning: str
) -> inspection_service_pb2.ConfigurationNote:
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return inspection_service_pb2.ConfigurationNote(
        line=parsed.line_of(path), path=where.lstrip("."), meaning=meaning
    )
