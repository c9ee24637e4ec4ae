"""Whatever an object holds, it is translated or set aside with one line: nothing else happens."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.manifests import ManifestError, translate
from pumice.manifests.kinds import READERS, Reader
from pumice.v1.object_pb2 import Kind
from tests.manifests.manifest import pod, problem_of

# Words that lead deep into objects, so that more than the outermost check is met.
WORDS = [
    "metadata", "name", "namespace", "labels", "annotations", "creationTimestamp", "uid", "spec",
    "status", "containers", "initContainers", "resources", "requests", "limits", "cpu", "memory",
    "affinity", "nodeAffinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms", "matchExpressions", "key", "operator", "values", "tolerations", "volumes",
    "topologySpreadConstraints", "topologyKey", "labelSelector", "matchLabels", "devices",
    "members", "selector", "type", "tier", "capacity", "allocatable", "taints", "drivers",
    "minMember", "minResources", "networkTopology", "subGroupPolicy", "weight", "capability",
    "volcano.sh/preemptable", "volcano.sh/sla-waiting-time", "volcano.sh/task-priority",
]  # fmt: skip

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1", "-1", "1Gi", "1e999999999", "In", "Exists", "Always", "2026-01-01"])
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=25,
)
bodies = st.dictionaries(st.sampled_from(WORDS), anything, max_size=6)


@settings(max_examples=150)
@given(reader=st.sampled_from(READERS), body=bodies, spec=bodies, status=bodies)
def test_any_object_is_translated_or_refused_with_one_line(
    reader: Reader[Any, Any],
    body: dict[str, Any],
    spec: dict[str, Any],
    status: dict[str, Any],
) -> None:
    head = {"apiVersion": f"{reader.groups[0]}/v1".lstrip("/"), "kind": reader.name}
    document = {"metadata": {"name": "x"}, "spec": spec, "status": status, **body, **head}
    found, problem = None, ""
    try:
        found = translate(document)
    except ManifestError as error:
        problem = str(error)
    if found is None:
        assert problem.startswith(reader.name)
        assert "\n" not in problem
    else:
        assert found.WhichOneof("object") == reader.field
        found.SerializeToString()


def test_every_kind_of_the_wire_has_a_reader() -> None:
    assert {reader.kind for reader in READERS} == set(Kind.values()) - {Kind.KIND_UNSPECIFIED}


def test_a_million_labels_are_read_and_not_looked_at() -> None:
    labels = {f"l{index}": "v" for index in range(100_000)}
    found = translate(pod(labels=labels))
    assert found is not None
    assert len(found.pod.labels) == len(labels)


def test_deep_selectors_are_refused() -> None:
    # Deeper than any interpreter from 3.11 on allows.
    deep: Any = "x"
    for _ in range(100_000):
        deep = {"a": deep}
    assert "nested too deeply" in problem_of(pod({"affinity": deep}))


def test_absurd_numbers_are_refused_in_no_time() -> None:
    for text in ("1e999999999", "1e-999999999", "9" * 250, "0." + "0" * 250 + "1"):
        document = pod({"overhead": {"cpu": text}})
        problem = problem_of(document)
        assert len(problem) < 300
