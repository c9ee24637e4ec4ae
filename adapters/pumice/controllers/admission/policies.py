"""MutatingAdmissionPolicies that set fields of pods by their resource group.

A pod belongs to the first group that it matches: the policy of a group excludes the pods of the
groups before it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pumice.controllers.admission.groups import ConfigurationError, ResourceGroup
from pumice.controllers.runtime.objects import Manifest

LABEL: Final = "app.kubernetes.io/part-of"
PART_OF: Final = "pumice-resource-groups"
_GROUP: Final = "admissionregistration.k8s.io/v1"
_EXEMPT: Final = ("kube-system", "volcano-system")
_ANNOTATION: Final = "object.metadata.?annotations[?{}].orValue('')"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def policies(groups: Sequence[ResourceGroup]) -> list[Manifest]:
    """A policy and its binding for each group that changes something. Raises ConfigurationError."""
    found: list[Manifest] = []
    names: dict[str, str] = {}
    for number, group in enumerate(groups):
        mutations = list(_mutations(group))
        if not mutations or not (group.namespaces or group.annotations):
            continue
        name = _policy_name(group.name)
        if other := names.get(name):
            raise ConfigurationError(
                f"resourceGroups {other!r} and {group.name!r} lead to one name, {name}"
            )
        names[name] = group.name
        found += [_policy(name, group, groups[:number], mutations), _binding(name)]
    return found


def _policy_name(name: str) -> str:
    safe = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:63].strip("-")
    if not _NAME.fullmatch(safe):
        raise ConfigurationError(
            f"resourceGroup {name!r} has no letter and no digit; allowed: a name with some"
        )
    return f"{safe}.resource-groups.volcano.sh"


def _policy(
    name: str, group: ResourceGroup, before: Sequence[ResourceGroup], mutations: Sequence[str]
) -> Manifest:
    conditions = [{"name": "is-in-the-group", "expression": _matches(group)}]
    others = [one for one in before if one.namespaces or one.annotations]
    if others:
        text = " || ".join(_matches(one) for one in others)
        conditions.append({"name": "is-in-no-group-before-it", "expression": f"!({text})"})
    return {
        "apiVersion": _GROUP,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name, "labels": {LABEL: PART_OF}},
        "spec": {
            "failurePolicy": "Fail",
            # Tolerations are added once.
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ],
                "namespaceSelector": {
                    "matchExpressions": [
                        {
                            "key": "kubernetes.io/metadata.name",
                            "operator": "NotIn",
                            "values": list(_EXEMPT),
                        }
                    ]
                },
            },
            "matchConditions": conditions,
            "mutations": [
                {"patchType": "JSONPatch", "jsonPatch": {"expression": text}} for text in mutations
            ],
        },
    }


def _binding(name: str) -> Manifest:
    return {
        "apiVersion": _GROUP,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name, "labels": {LABEL: PART_OF}},
        "spec": {"policyName": name},
    }


def _matches(group: ResourceGroup) -> str:
    terms = [
        f"{_ANNOTATION.format(_quoted(key))} == {_quoted(text)}" for key, text in group.annotations
    ]
    if group.namespaces:
        terms.append(f"request.namespace in {_literal(list(group.namespaces))}")
    return f"({' || '.join(terms)})"


# The mutations of a pod, as expressions in CEL.


def _mutations(group: ResourceGroup) -> Iterator[str]:
    if group.node_selector:
        yield _added("nodeSelector", dict(group.node_selector), _keys(group.node_selector))
    if group.affinity:
        whole = _patch("/spec/affinity", _literal(group.affinity))
        yield f"has(object.spec.affinity) ? [] : [{whole}]"
    if group.tolerations:
        each = [_patch("/spec/tolerations/-", _literal(one)) for one in group.tolerations]
        yield _added("tolerations", list(group.tolerations), each)
    if group.scheduler_name:
        yield f"[{_patch('/spec/schedulerName', _quoted(group.scheduler_name))}]"


def _keys(selector: Iterable[tuple[str, str]]) -> list[str]:
    return [
        _patch(f"/spec/nodeSelector/{key.replace('~', '~0').replace('/', '~1')}", _quoted(text))
        for key, text in selector
    ]


def _added(field: str, whole: object, parts: Sequence[str]) -> str:
    """Adds parts to the field of a pod that has the field; adds the whole field to other pods."""
    patch = _patch(f"/spec/{field}", _literal(whole))
    return f"has(object.spec.{field}) ? [{', '.join(parts)}] : [{patch}]"


def _patch(path: str, value: str) -> str:
    return f"JSONPatch{{op: 'add', path: {_quoted(path)}, value: {value}}}"


def _quoted(text: str) -> str:
    """A string literal in CEL, which allows all of JSON's escapes."""
    return json.dumps(text, ensure_ascii=False)


def _literal(value: Any) -> str:
    """A literal in CEL. All elements of lists and maps are dynamic, because they must have one type."""
    match value:
        case Mapping():
            parts = (f"{_quoted(str(key))}: dyn({_literal(one)})" for key, one in value.items())
            return f"{{{', '.join(parts)}}}"
        case list() | tuple():
            return f"[{', '.join(f'dyn({_literal(one)})' for one in value)}]"
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return _quoted(value)
    return str(value)
