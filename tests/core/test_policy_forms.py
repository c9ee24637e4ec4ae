"""A policy is stated once: decisions are the same where plugins give only the plain functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.core.decisions import SessionResult
from pumice.core.engine import Engine
from pumice.core.registry import Plugin
from pumice.core.session.hooks import EventHandler, Hooks
from pumice.core.session.policies import (
    AllocatableCount,
    ClassRule,
    MissingTasks,
    PlainRule,
    RowTerms,
    SortKey,
    VictimRule,
)
from pumice.core.session.session import Session
from tests.core.evicting import PLAIN, STOCK, Tiers, engine, run
from tests.core.test_preempt_properties import cluster

FORMS = (AllocatableCount, ClassRule, MissingTasks, PlainRule, RowTerms, SortKey, VictimRule)
CONFIGURATIONS: list[Tiers] = [
    STOCK,
    PLAIN,
    (("priority", "gang", "conformance"), ("drf", "predicates", "capacity", "nodeorder")),
    (("priority", "drf", "gang"), ("proportion", "predicates", "binpack")),
]
ACTIONS = ["enqueue, allocate, backfill", "allocate, preempt", "allocate, reclaim"]


def weaken(hooks: Hooks, only: type[Any] | None = None) -> int:
    """Replaces strong forms by plain functions; returns how many there were."""
    count = 0
    for point in fields(Hooks):
        functions = getattr(hooks, point.name)
        if point.name == "handlers":
            if only is None:
                functions[:] = [EventHandler(h.allocated, h.deallocated) for h in functions]
            continue
        for name, function in functions.items():
            if isinstance(function, FORMS if only is None else only):
                functions[name] = partial(function)
                count += 1
    return count


@contextmanager
def weakened(only: type[Any] | None = None) -> Iterator[list[int]]:
    opened, counts = Engine._open, []

    def open_weakly(self: Engine, session: Session) -> list[Plugin]:
        plugins = opened(self, session)
        counts.append(weaken(session.hooks, only))
        return plugins

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "_open", open_weakly)
        yield counts


def outcome(tiers: Tiers, actions: str, seed: int) -> tuple[object, ...]:
    result: SessionResult = run(engine(actions, tiers, cluster(seed)))
    return result.decisions, result.statuses, result.events, result.waits


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(CONFIGURATIONS), st.sampled_from(ACTIONS), st.integers(0, 2**32))
def test_plain_functions_decide_what_the_strong_forms_do(
    tiers: Tiers, actions: str, seed: int
) -> None:
    expected = outcome(tiers, actions, seed)
    with weakened() as counts:
        assert outcome(tiers, actions, seed) == expected
    assert counts[0] > 5


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@settings(max_examples=8, deadline=None)
@given(st.sampled_from(CONFIGURATIONS), st.sampled_from(ACTIONS), st.integers(0, 2**32))
def test_one_form_can_be_missing(form: type[Any], tiers: Tiers, actions: str, seed: int) -> None:
    expected = outcome(tiers, actions, seed)
    with weakened(form):
        assert outcome(tiers, actions, seed) == expected
