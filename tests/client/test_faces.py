"""The two clients are one library: what one can be asked, the other can, in the same words."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from pumice.client import AsyncClient, Client


def methods_of(client: type) -> dict[str, Callable[..., Any]]:
    return {
        name: member
        for name, member in inspect.getmembers(client, callable)
        if not name.startswith("_")
    }


def test_both_have_the_same_methods() -> None:
    assert list(methods_of(Client)) == list(methods_of(AsyncClient))


@pytest.mark.parametrize("name", methods_of(Client))
def test_a_method_takes_the_same_and_answers_the_same(name: str) -> None:
    sync, awaited = (inspect.signature(methods_of(c)[name]) for c in (Client, AsyncClient))
    assert sync.parameters == awaited.parameters
    if name in ("watch", "record"):
        item = sync.return_annotation.removeprefix("Stream[").removesuffix("]")
        assert awaited.return_annotation == f"AsyncGenerator[{item}, None]"
    else:
        assert sync.return_annotation == awaited.return_annotation


@pytest.mark.parametrize("name", sorted(set(methods_of(Client)) - {"close"}))
def test_every_argument_is_typed_and_every_call_has_its_own_time_and_cluster(name: str) -> None:
    parameters = inspect.signature(methods_of(Client)[name]).parameters
    assert all(p.annotation is not p.empty for n, p in parameters.items() if n != "self")
    assert all(p.kind is not p.VAR_KEYWORD for p in parameters.values())
    assert name == "record" or "timeout_seconds" in parameters
    assert name in ("check_config", "list_clusters", "schedule_inline") or "cluster" in parameters
    assert methods_of(Client)[name].__doc__
    assert methods_of(AsyncClient)[name].__doc__
