"""pdb: one answer never names more victims than budgets allow."""

from __future__ import annotations

import random

import pytest

from pumice.core.model.group import PodDisruptionBudget
from pumice.core.model.selectors import LabelSelector, Operator, Requirement
from tests.core.builders import job, node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, names


def selector(**labels: str) -> LabelSelector:
    return LabelSelector(tuple(Requirement(k, Operator.IN, (v,)) for k, v in labels.items()))


def budget(
    name: str, allowed: int, chosen: LabelSelector | None, **fields: str
) -> PodDisruptionBudget:
    namespace = fields.pop("namespace", "ns")
    return PodDisruptionBudget(
        f"uid-{name}", namespace, name, chosen, allowed, tuple(fields.values())
    )


def victims(budgets: list[PodDisruptionBudget], labels: list[dict[str, str]]) -> list[str]:
    pods = [pod(f"a-{i}", "a", on="n1", labels=held) for i, held in enumerate(labels)]
    objects = [queue(), node("n1", pods=500), pod_group("a"), *pods, *budgets, *job("p", 1)]
    session = Opened(*objects, plugins=["pdb"])
    tasks = session.tasks(*(f"a-{i}" for i in range(len(labels))))
    found, _ = session.hooks.preemptable["pdb"](session.task("p-0"), tasks)
    assert session.hooks.victim_tasks["pdb"](tasks) == found
    return names(found)


WEB = {"app": "web"}


@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        ([], ["a-0", "a-1"]),
        ([budget("b", 0, selector(app="web"))], []),
        ([budget("b", 1, selector(app="web"))], ["a-0"]),
        ([budget("b", 0, selector(app="db"))], ["a-0", "a-1"]),
        ([budget("b", 0, selector(app="web"), namespace="other")], ["a-0", "a-1"]),
        ([budget("b", 0, None)], ["a-0", "a-1"]),
        ([budget("b", 0, LabelSelector())], ["a-0", "a-1"]),
        # A pod that is being taken away counts against no budget.
        ([budget("b", 0, selector(app="web"), gone="a-1")], ["a-1"]),
        ([budget("b", 1, selector(app="web")), budget("c", 0, selector(app="web"))], []),
        ([budget("b", -3, selector(app="web"))], []),
    ],
)
def test_pods_stay_within_every_budget(
    budgets: list[PodDisruptionBudget], expected: list[str]
) -> None:
    assert victims(budgets, [WEB, WEB]) == expected


def test_pods_without_labels_are_never_victims() -> None:
    assert victims([], [{}, WEB]) == ["a-1"]


@pytest.mark.parametrize("seed", range(25))
def test_no_budget_is_ever_exceeded_by_one_answer(seed: int) -> None:
    rng = random.Random(seed)
    keys = ["x", "y"]
    budgets = [
        budget(f"b{i}", rng.randint(0, 3), selector(**{rng.choice(keys): rng.choice("12")}))
        for i in range(4)
    ]
    labels = [{k: rng.choice("12") for k in keys if rng.random() < 0.8} for _ in range(12)]
    found = victims(budgets, labels)
    for held in budgets:
        assert held.selector is not None
        taken = [n for n in found if held.selector.matches(labels[int(n[2:])])]
        assert len(taken) <= held.disruptions_allowed
