"""What a pod asks for as a whole."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.manifests.manifest import container, pod, problem_of, to_pod, to_spec

GI = 2**30
MI = 2**20


def requests_of(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, int]:
    found = dict(to_pod(pod(spec, status)).spec.requests)
    assert found.pop("pods") == 1
    return found


def sidecar(requests: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return container(requests, restartPolicy="Always", **fields)


def test_a_pod_without_requests_asks_for_one_place() -> None:
    assert dict(to_spec({}).requests) == {"pods": 1}


def test_containers_add_up() -> None:
    spec = {"containers": [container({"cpu": "1", "memory": "1Gi"}), container({"cpu": "500m"})]}
    assert requests_of(spec) == {"cpu": 1500, "memory": GI}


def test_each_container_is_rounded_up_by_itself() -> None:
    spec = {"containers": [container({"cpu": "100u"}), container({"cpu": "100u"})]}
    assert requests_of(spec) == {"cpu": 2}


def test_the_worked_example_of_init_containers_sidecars_and_overhead() -> None:
    spec = {
        "containers": [container({"cpu": "2"})],
        "initContainers": [
            container({"cpu": "4"}),
            sidecar({"cpu": "1"}),
            container({"cpu": "3.5"}),
        ],
        "overhead": {"cpu": "100m"},
    }
    assert requests_of(spec) == {"cpu": 4600}


def test_sidecars_count_beside_containers_and_beside_later_init_containers() -> None:
    spec = {
        "containers": [container({"cpu": "1", "memory": "1Gi"})],
        "initContainers": [
            sidecar({"cpu": "2"}),
            sidecar({"memory": "3Gi"}),
            container({"cpu": "2", "memory": "2Gi"}),
        ],
    }
    assert requests_of(spec) == {"cpu": 4000, "memory": 5 * GI}


def test_names_that_do_not_count_are_left_out() -> None:
    spec = {"containers": [container({"cpu": "1", "storage": "1Gi", "count/x": "1"})]}
    assert requests_of(spec) == {"cpu": 1000}


def test_limits_stand_in_for_requests_that_are_not_said() -> None:
    resources = {"limits": {"cpu": "2", "nvidia.com/gpu": 1}, "requests": {"cpu": "1"}}
    spec = {"containers": [container(resources=resources)]}
    assert requests_of(spec) == {"cpu": 1000, "nvidia.com/gpu": 1000}


def test_what_the_pod_asks_for_as_a_whole_replaces_the_sum() -> None:
    spec = {
        "containers": [
            container({"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi", "x.y/gpu": "1"})
        ],
        "resources": {"requests": {"cpu": "3", "hugepages-2Mi": "4Mi", "x.y/gpu": "7"}},
        "overhead": {"cpu": "250m", "memory": "64Mi"},
    }
    assert requests_of(spec) == {
        "cpu": 3250,
        "memory": GI + 64 * MI,
        "hugepages-2Mi": 4 * MI,
        "x.y/gpu": 1000,
    }


def test_limits_of_the_pod_stand_in_only_for_what_no_container_asks_for() -> None:
    spec = {
        "containers": [container({"cpu": "1"})],
        "resources": {"limits": {"cpu": "4", "memory": "2Gi"}},
    }
    assert requests_of(spec) == {"cpu": 1000, "memory": 2 * GI}


def container_status(name: str = "main", **fields: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": name, **fields}]}


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        ({}, 2000),
        (container_status(resources={"requests": {"cpu": "3"}}), 3000),
        (container_status(resources={"requests": {"cpu": "1"}}), 2000),
        (
            container_status(
                resources={"requests": {"cpu": "1"}}, allocatedResources={"cpu": "2500m"}
            ),
            2500,
        ),
        # Without resources in the status the resize has not begun.
        (container_status(allocatedResources={"cpu": "9"}), 2000),
        (container_status(name="other", resources={"requests": {"cpu": "9"}}), 2000),
    ],
)
def test_a_container_that_is_resized_counts_the_most_of_what_is_said(
    status: dict[str, Any], cpu: int
) -> None:
    assert requests_of({"containers": [container({"cpu": "2"})]}, status) == {"cpu": cpu}


@pytest.mark.parametrize(
    ("conditions", "cpu"),
    [
        ([{"type": "PodResizePending", "reason": "Infeasible"}], 1000),
        ([{"type": "PodResizePending", "reason": "Deferred"}], 4000),
        ([{"type": "Ready", "reason": "Infeasible"}], 4000),
        # The first condition of that type decides.
        (
            [
                {"type": "PodResizePending", "reason": "Deferred"},
                {"type": "PodResizePending", "reason": "Infeasible"},
            ],
            4000,
        ),
    ],
)
def test_a_resize_that_the_node_refused_does_not_count(
    conditions: list[dict[str, str]], cpu: int
) -> None:
    status = container_status(resources={"requests": {"cpu": "1"}}, allocatedResources={"cpu": "1"})
    status["conditions"] = conditions
    assert requests_of({"containers": [container({"cpu": "4"})]}, status) == {"cpu": cpu}


def test_sidecars_can_be_resized_and_other_init_containers_cannot() -> None:
    spec = {
        "containers": [container({"cpu": "1"})],
        "initContainers": [
            sidecar({"cpu": "1"}, name="side"),
            container({"cpu": "2"}, name="init"),
        ],
    }
    resized = {"resources": {"requests": {"cpu": "5"}}}
    status = {"initContainerStatuses": [{"name": "side", **resized}, {"name": "init", **resized}]}
    assert requests_of(spec, status) == {"cpu": 7000}


@pytest.mark.parametrize(
    ("spec", "milli_cpu", "memory"),
    [
        ({}, 100, 200 * MI),
        ({"containers": [container({"cpu": "1"}), container({"memory": "1Gi"})]},
         1100, GI + 200 * MI),
        # Zero said is zero, not the default.
        ({"containers": [container({"cpu": "0", "memory": "0"})]}, 0, 0),
        ({"initContainers": [container()]}, 100, 200 * MI),
        ({"initContainers": [sidecar({})]}, 200, 400 * MI),
        ({"overhead": {"cpu": "50m"}}, 150, 200 * MI),
        ({"resources": {"requests": {"cpu": "3"}}}, 3000, 200 * MI),
        ({"containers": [container({"cpu": "1"}), container()],
          "resources": {"requests": {"memory": "3Gi"}}}, 1000, 3 * GI),
        # Kubernetes adds before it rounds.
        ({"containers": [container({"cpu": "100u", "memory": "1"}),
                         container({"cpu": "100u", "memory": "1"})]}, 1, 2),
    ],
)  # fmt: skip
def test_scores_assume_something_of_containers_that_do_not_say(
    spec: dict[str, Any], milli_cpu: int, memory: int
) -> None:
    found = to_spec(spec)
    assert (found.non_zero_milli_cpu, found.non_zero_memory_bytes) == (milli_cpu, memory)


def test_pod_level_resources_are_left_out_of_what_least_and_most_requested_count() -> None:
    spec = {
        "containers": [container({"cpu": "1"}), container()],
        "overhead": {"cpu": "50m"},
        "resources": {"requests": {"cpu": "3", "memory": "3Gi"}},
    }
    found = to_spec(spec)
    assert (found.container_milli_cpu, found.container_memory_bytes) == (1150, 400 * MI)
    assert (found.non_zero_milli_cpu, found.requests["cpu"]) == (3050, 3050)
    assert not to_spec({"containers": [container()]}).HasField("container_milli_cpu")


def test_bad_requests_name_the_container_and_the_resource() -> None:
    spec = {"containers": [container(), container({"cpu": "-1"})]}
    assert problem_of(pod(spec)) == (
        "Pod a/p: spec.containers[1].resources.requests[cpu]: -1 is negative; allowed: zero or more"
    )


def test_requests_that_add_up_to_too_much_are_refused() -> None:
    huge = container({"memory": "7Ei"})
    assert "is too large" in problem_of(pod({"containers": [huge, huge]}))


# A slow and obvious reading of the rules: at every moment of a pod's life, what runs?

quantities = st.sampled_from(["0", "1", "2", "500m", "0.25", "1500u", "3", "100m"])
resource_lists = st.dictionaries(st.sampled_from(["cpu", "memory", "x.y/gpu"]), quantities)
containers = st.builds(container, resource_lists)
init_containers = st.lists(
    st.builds(
        lambda requests, policy: container(requests, **policy),
        resource_lists,
        st.sampled_from([{}, {"restartPolicy": "Always"}]),
    ),
    max_size=4,
)
UNIT = {"cpu": 1000, "memory": 1, "x.y/gpu": 1000}


def exact(text: str) -> Fraction:
    for suffix, factor in (("m", 1000), ("u", 10**6)):
        if text.endswith(suffix):
            return Fraction(text[:-1]) / factor
    return Fraction(text)


def asked(one: dict[str, Any], name: str) -> int:
    amount = exact(one["resources"]["requests"].get(name, "0")) * UNIT[name]
    return -(-amount.numerator // amount.denominator)


def needed(spec: dict[str, Any], name: str) -> int:
    init = spec["initContainers"]
    moments = []
    for index, one in enumerate(init):
        beside = [early for early in init[:index] if "restartPolicy" in early]
        moments.append(asked(one, name) + sum(asked(early, name) for early in beside))
    running = [*spec["containers"], *(one for one in init if "restartPolicy" in one)]
    moments.append(sum(asked(one, name) for one in running))
    return max(moments)


@given(st.lists(containers, min_size=1, max_size=3), init_containers, resource_lists)
def test_a_pod_asks_for_the_most_it_needs_at_any_moment(
    regular: list[dict[str, Any]], init: list[dict[str, Any]], overhead: dict[str, str]
) -> None:
    spec = {"containers": regular, "initContainers": init, "overhead": overhead}
    found = requests_of(spec)
    for name, unit in UNIT.items():
        extra = exact(overhead.get(name, "0")) * unit
        expected = needed(spec, name) + -(-extra.numerator // extra.denominator)
        assert found.get(name, 0) == expected
    mentioned = {name for one in (*regular, *init) for name in one["resources"]["requests"]} | set(
        overhead
    )
    assert set(found) == mentioned
