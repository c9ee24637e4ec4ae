"""What annotations and labels of a pod say about the vGPU cards it may get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pumice.core.cache.tasks import Task
from pumice.core.plugins.deviceshare.cards import SPREAD, Tenant
from pumice.core.plugins.deviceshare.registers import Card

_MODE = "volcano.sh/vgpu-mode"
_USE_TYPE = "nvidia.com/use-gputype"
_NO_TYPE = "nvidia.com/nouse-gputype"
_USE_NAME = "volcano.sh/vgpu-use-gpuuuid"
_NO_NAME = "volcano.sh/vgpu-nouse-gpuuuid"
_GROUP_POLICY = "volcano.sh/vgpu-podgroup-policy"
_GROUPS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_KEYS = frozenset((_MODE, _USE_TYPE, _NO_TYPE, _USE_NAME, _NO_NAME, _GROUP_POLICY))


@dataclass(frozen=True, slots=True)
class CardSelector:
    """The cards that a pod may get, beyond what is free; empty fields allow all."""

    # None: not given.
    mode: str | None = None
    # None: not given. A list of types to use, even an empty one, overrides the list of others.
    use_types: tuple[str, ...] | None = None
    no_types: tuple[str, ...] | None = None
    use_names: tuple[str, ...] = ()
    no_names: tuple[str, ...] = ()
    # No card with another pod of this group.
    apart_from: str = ""
    # No card with another pod that matches one of these rules.
    rules: tuple[int, ...] = ()

    def allows_type(self, card: Card) -> bool:
        kind = card.type.upper()
        if self.use_types is not None:
            return any(word in kind for word in self.use_types)
        return not any(word in kind for word in self.no_types or ())

    def allows_name(self, name: str) -> bool:
        if self.use_names and name not in self.use_names:
            return False
        return name not in self.no_names

    def may_join(self, tenants: Sequence[Tenant]) -> bool:
        """Whether the pod may share a card with these pods."""
        return not any(
            (self.apart_from and tenant.group == self.apart_from)
            or any(rule in self.rules for rule in tenant.rules)
            for tenant in tenants
        )


_NONE = CardSelector()


def selector_of(task: Task, rules: Sequence[Mapping[str, str]]) -> CardSelector | None:
    """What a pod says about its cards; None: it takes any card."""
    said = task.pod.annotations
    if not rules and said.keys().isdisjoint(_KEYS):
        return None
    group, matched = groups_of(task, rules) if rules or _GROUP_POLICY in said else ("", ())
    selector = CardSelector(
        mode=said.get(_MODE),
        use_types=_words(said, _USE_TYPE),
        no_types=_words(said, _NO_TYPE),
        use_names=_names(said.get(_USE_NAME, "")),
        no_names=_names(said.get(_NO_NAME, "")),
        apart_from=group if said.get(_GROUP_POLICY) == SPREAD else "",
        rules=matched,
    )
    return None if selector == _NONE else selector


def groups_of(task: Task, rules: Sequence[Mapping[str, str]]) -> tuple[str, tuple[int, ...]]:
    """The group of a pod, and the exclusive rules that it matches, by number."""
    pod = task.pod
    name = next((pod.annotations[key] for key in _GROUPS if pod.annotations.get(key)), "")
    matched = tuple(
        number
        for number, rule in enumerate(rules)
        if all(pod.labels.get(key) == value for key, value in rule.items())
    )
    return (f"{pod.namespace}/{name}" if name else "", matched)


def _words(annotations: Mapping[str, str], key: str) -> tuple[str, ...] | None:
    text = annotations.get(key)
    return None if text is None else tuple(word for word in text.upper().split(","))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))
