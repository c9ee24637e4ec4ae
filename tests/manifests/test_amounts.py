"""Resource lists: which names count, and in which unit."""

from __future__ import annotations

import pytest

from pumice.manifests.amounts import amounts, milli_amounts
from pumice.manifests.errors import FieldError
from pumice.manifests.quantities import MAX_INT64


@pytest.mark.parametrize(
    ("name", "quantity", "amount"),
    [
        ("cpu", "2", 2000),
        ("cpu", "100m", 100),
        ("cpu", "0.1m", 1),
        ("memory", "1Gi", 2**30),
        ("memory", "1500m", 2),
        ("pods", "110", 110),
        ("ephemeral-storage", "20Ti", 20 * 2**40),
        ("nvidia.com/gpu", "1", 1000),
        ("hugepages-2Mi", "4Mi", 4 * 2**20),
        ("attachable-volumes-csi-ebs", "25", 25),
        ("example.kubernetes.io/thing", "1", 1000),
        ("kubernetes.io/batch-cpu", "1", 1000),
        ("deviceclass/gpu.example.com", "2", 2000),
        ("memory.deviceclass/gpu.example.com", "80Gi", 80 * 2**30 * 1000),
    ],
)
def test_names_that_count_and_their_units(name: str, quantity: str, amount: int) -> None:
    assert amounts({name: quantity}, "f") == {name: amount}


@pytest.mark.parametrize(
    "name",
    ["count/pods", "count/jobs.batch", "requests.cpu", "limits.memory", "requests.nvidia.com/gpu",
     "storage", "services", "a/b/c", "UPPER.com/x", "example.com/", "/x", "example.com/-x",
     "example.com/" + "x" * 64, "a" * 245 + "/x"],
)  # fmt: skip
def test_names_that_do_not_count(name: str) -> None:
    assert amounts({name: "1"}, "f") == {}


def test_a_name_with_zero_is_still_a_name() -> None:
    assert amounts({"nvidia.com/gpu": "0", "cpu": 0}, "f") == {"nvidia.com/gpu": 0, "cpu": 0}


def test_quotas_count_every_name_in_thousandths() -> None:
    assert milli_amounts(
        {"requests.cpu": "1500m", "requests.memory": "1Gi", "count/pods": 3, "pods": "8Ei"}, "f"
    ) == {
        "requests.cpu": 1500,
        "requests.memory": 2**30 * 1000,
        "count/pods": 3000,
        "pods": MAX_INT64,
    }


@pytest.mark.parametrize(
    ("quantity", "problem"),
    [("-1", "is negative"), ("1x", "not a quantity"), ("100E", "too large"), (-0.5, "negative")],
)
def test_bad_amounts_name_the_field_and_what_is_allowed(quantity: str, problem: str) -> None:
    with pytest.raises(FieldError, match=problem) as caught:
        amounts({"cpu": quantity}, "status.allocatable")
    assert caught.value.field == "status.allocatable[cpu]"
    assert caught.value.allowed
