"""The raw JSON of an API server: the same answers as for manifests, and templates made once."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.manifests import ManifestError, decode, decode_pod, translate
from pumice.manifests import pod_specs as templates
from pumice.manifests.pods import DECODER
from pumice.v1 import delta_pb2, pod_pb2
from pumice.v1.object_pb2 import Kind
from tests.manifests.manifest import container, manifest, pod


def raw(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


def test_raw_json_and_a_manifest_are_the_same_object() -> None:
    document = pod({"containers": [container({"cpu": "1"})], "nodeName": "n"})
    found = translate(document)
    assert found is not None
    assert decode_pod(raw(document)) == found.pod
    assert decode(Kind.KIND_POD, raw(document)) == found


def test_what_an_api_server_leaves_out_of_lists_is_not_needed() -> None:
    document = manifest("v1", "Node", {"status": {"allocatable": {"cpu": "1"}}})
    del document["apiVersion"], document["kind"]
    assert decode(Kind.KIND_NODE, raw(document)).node.allocatable["cpu"] == 1000


def test_a_message_can_be_filled_where_it_stands() -> None:
    batch = delta_pb2.DeltaBatch()
    decode(Kind.KIND_POD, raw(pod()), into=batch.ops.add().upsert.object)
    assert batch.ops[0].upsert.object.pod.name == "p"


def test_a_part_of_a_page_can_be_decoded_without_a_copy() -> None:
    page = msgspec.json.decode(
        raw({"items": [pod(), pod(name="q")]}), type=dict[str, list[msgspec.Raw]]
    )
    assert [decode_pod(item).name for item in page["items"]] == ["p", "q"]


def test_what_cannot_be_read_leaves_the_message_empty() -> None:
    target = pod_pb2.Pod()
    with pytest.raises(ManifestError, match=r"watch: Pod a/p: spec\.priority: expected int"):
        decode_pod(raw(pod({"priority": "x"})), target, source="watch")
    assert target == pod_pb2.Pod()
    with pytest.raises(ManifestError, match=r"Pod: JSON is malformed|Pod: jSON is malformed"):
        decode_pod(b"{]", target)


def test_nulls_of_an_api_server_are_read_as_absent() -> None:
    document = pod({"affinity": None, "tolerations": None}, {"conditions": None})
    document["metadata"]["creationTimestamp"] = None
    assert decode_pod(raw(document)) == decode_pod(raw(pod()))


def test_a_condition_without_a_time_does_not_need_a_second_try() -> None:
    """API servers send null for it, in every pod that somebody starts without times."""
    scheduled = {"type": "PodScheduled", "status": "True"}
    document = pod({}, {"conditions": [{**scheduled, "lastTransitionTime": None}]})
    assert DECODER.decode(raw(document)).status.conditions[0].last_transition_time is None
    assert decode_pod(raw(document)) == decode_pod(raw(pod({}, {"conditions": [scheduled]})))


def varied(name: str, labels: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    return pod(spec, name=name, uid=name, labels=labels)


specs = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.lists(
            st.builds(
                container,
                st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "2"])),
                image=st.sampled_from(["a", "b"]),
                ports=st.sampled_from([[], [{"hostPort": 1}], [{"containerPort": 2}]]),
            ),
            min_size=1,
            max_size=2,
        ),
        "initContainers": st.lists(
            st.builds(
                container,
                st.just({"cpu": "3"}),
                restartPolicy=st.sampled_from(["", "Always"]),
            ),
            max_size=1,
        ),
        "hostNetwork": st.booleans(),
        "overhead": st.sampled_from([{}, {"cpu": "1"}]),
        "resources": st.sampled_from([{}, {"requests": {"cpu": "5"}}]),
        "nodeSelector": st.sampled_from([{}, {"a": "b"}]),
        "tolerations": st.sampled_from([[], [{"operator": "Exists"}]]),
        "schedulingGates": st.sampled_from([[], [{"name": "g"}]]),
        "schedulerName": st.sampled_from(["", "volcano"]),
        "priorityClassName": st.sampled_from(["", "high"]),
        "preemptionPolicy": st.sampled_from(["", "Never"]),
        "topologySpreadConstraints": st.sampled_from(
            [
                [],
                [
                    {
                        "topologyKey": "z",
                        "maxSkew": 1,
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {},
                        "matchLabelKeys": ["v"],
                    }
                ],
            ]
        ),
        "volumes": st.sampled_from(
            [
                [],
                [{"name": "t", "ephemeral": {}}],
                [{"name": "t", "persistentVolumeClaim": {"claimName": "c"}}],
                [{"name": "t", "image": {"reference": "i"}}],
                [{"name": "t", "emptyDir": {}}],
            ]
        ),
    },
)
pods = st.builds(
    varied,
    st.sampled_from(["p", "q"]),
    st.sampled_from([{}, {"v": "1"}, {"v": "2"}]),
    specs,
)


@given(st.lists(pods, min_size=2, max_size=6))
def test_a_template_that_was_seen_before_changes_nothing(documents: list[dict[str, Any]]) -> None:
    together = [decode_pod(raw(document)) for document in documents]
    alone = []
    for document in documents:
        templates._templates.clear()
        alone.append(decode_pod(raw(document)))
    assert together == alone


def test_pods_of_one_template_share_one_translation() -> None:
    templates._templates.clear()
    for index in range(50):
        token = {"name": f"kube-api-access-{index}", "projected": {}}
        decode_pod(raw(pod({"volumes": [token], "nodeName": f"n{index}"}, name=f"p{index}")))
    assert len(templates._templates) == 1


def test_the_memory_for_templates_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "_MOST_TEMPLATES", 10)
    for index in range(50):
        decode_pod(raw(pod({"schedulerName": f"s{index}"})))
    assert len(templates._templates) <= 10
