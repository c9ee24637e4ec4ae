"""Manifests as people really write them: each part is used, or a problem names it."""

from typing import Any

import pytest

from pumice.client.results import ScheduleResult
from tests.server import asking
from tests.server.asking import job, node, queue


def changed(path: str, value: object) -> dict[str, Any]:
    """A job with another value in one field."""
    made: Any = job("odd")
    *folders, last = path.split(".")
    holder = made
    for key in folders:
        holder = holder[int(key) if key.isdecimal() else key]
    holder[last] = value
    return dict(made)


def text_of(requests: str) -> str:
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: odd, namespace: team}\n"
        "spec: {schedulerName: volcano, containers: [{name: c, resources: {requests: {HERE}}}]}\n"
    )
    return text.replace("HERE", requests)


def answered(*documents: Any) -> ScheduleResult:
    request = asking.inline(node("n1"), *documents)
    result = ScheduleResult.from_proto(asking.answer(request, max_objects=50_000))
    assert result.to_dict()
    return result


@pytest.mark.parametrize(
    ("document", "field", "words"),
    [
        ("!!python/object/apply:os.system ['true']\n", "", "could not determine a constructor"),
        ("apiVersion: v1\nkind: !Own Pod\n", "", "could not determine a constructor"),
        ("- text\n", "", "str given where an object was expected"),
        ("a: [\n", "", "invalid YAML"),
        ("[" * 500 + "]" * 500 + "\n", "", "is nested too deeply"),
        ("kind: Pod\n", "apiVersion", "is missing"),
        (text_of("cpu: 1e400"), "spec.containers[0].resources.requests[cpu]", "is too large"),
        (text_of("cpu: 1.0e+400"), "", "the number 1.0e+400 is too large"),
        (text_of("cpu: .nan"), "spec.containers[0].resources.requests[cpu]", "is not a quantity"),
        (text_of("cpu: -1"), "spec.containers[0].resources.requests[cpu]", "is negative"),
        (changed("spec.tasks.0.replicas", 10**9), "spec.tasks[0].replicas", "from 0 to 100000"),
        (changed("spec.tasks.0.replicas", 1.5), "spec.tasks[0].replicas", "a whole number"),
        (changed("spec.tasks.0.replicas", True), "spec.tasks[0].replicas", "a whole number"),
        (changed("spec.tasks", []), "spec.tasks", "at least one task"),
        (changed("spec.tasks.0.template", {}), "spec.tasks[0].template.spec.containers", "missing"),
        (changed("spec.tasks.0.template", [1]), "spec.tasks[0].template", "must be an object"),
        (
            changed("spec.tasks.0.template.metadata", {"labels": [1]}),
            "template.metadata.labels",
            "must be an object",
        ),
        (changed("metadata.annotations", "x"), "metadata.annotations", "expected object"),
        (changed("metadata", [1]), "metadata", "must be an object"),
        (
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": "odd"},
                "spec": {"template": {"metadata": {"annotations": [1]}}},
            },
            "spec.template.metadata.annotations",
            "must be an object",
        ),
        (queue("odd", weight=-5), "spec.weight", "allowed: 1 to 65535"),
    ],
)
def test_what_cannot_be_used_is_an_error_with_its_field(
    document: Any, field: str, words: str
) -> None:
    result = answered(document, job("good"))
    assert result.errors[0].field == field
    assert words in str(result.errors[0])
    assert result.errors[0].source.startswith("job.yaml:")
    assert "team/good" in {each.job for each in result.jobs if each.is_placed}
    assert all(each.verdict == "invalid" for each in result.jobs if each.job != "team/good")


@pytest.mark.parametrize(
    ("document", "field", "words"),
    [
        (
            job("x", requests={"nvidia.com/gpu": "0.5"}),
            "spec.requests[nvidia.com/gpu]",
            "whole units",
        ),
        (job("x", priorityClassName="nope"), "spec.priorityClassName", "the PriorityClass 'nope'"),
        (job("x", 3, schedulerName="other"), "spec.schedulerName", "(and 2 more)"),
        (changed("metadata.name", "a/b"), "metadata.name", "an API server would refuse"),
        (changed("metadata.name", "Aé\0"), "metadata.name", "an API server would refuse"),
        (changed("metadata.name", "x" * 300), "metadata.name", "an API server would refuse"),
        (
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "x"}},
            "",
            "a scheduler does not read apps/v1 DaemonSet",
        ),
        (
            {"apiVersion": "v1", "kind": "Job", "metadata": {"name": "x"}},
            "",
            "does not read v1 Job",
        ),
    ],
)
def test_what_is_perhaps_not_meant_is_a_warning(document: Any, field: str, words: str) -> None:
    result = answered(document)
    assert not result.errors
    assert [each.field for each in result.problems if words in str(each)][:1] == [field]


@pytest.mark.parametrize(
    "document",
    [
        {"apiVersion": "v1", "kind": "List", "items": [job("a")]},
        {
            "apiVersion": "v1",
            "kind": "List",
            "items": [{"apiVersion": "v1", "kind": "List", "items": [job("a")]}],
        },
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "JobList",
            "items": [{key: job("a")[key] for key in ("metadata", "spec")}],
        },
    ],
)
def test_lists_stand_for_their_items(document: Any) -> None:
    result = answered("---\n---\n# nothing\n", document)
    assert [(each.job, each.is_placed) for each in result.jobs] == [("team/a", True)]
    assert not result.problems


def test_one_name_twice_is_an_error() -> None:
    result = answered(job("a"), job("a"))
    assert [(each.job, each.verdict) for each in result.jobs] == [("team/a", "invalid")]
    assert "duplicate name, first used at job.yaml:" in result.errors[0].problem


def test_a_claim_that_does_not_exist_is_not_for_ever() -> None:
    claim = [{"name": "c", "resourceClaimName": "none"}]
    volume = [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]
    for made in (job("x", resourceClaims=claim), job("x", volumes=volume)):
        assert answered(made).jobs[0].verdict == "not now"


def test_a_group_without_pods_says_so() -> None:
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "empty", "namespace": "team"},
        "spec": {"minMember": 1},
    }
    (found,) = answered(group).jobs
    assert (found.verdict, found.sentence) == ("not examined", "team/empty has no pods.")
