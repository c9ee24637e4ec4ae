"""The two clients are one library: what one can be asked, the other can, in the same words."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from pumice.client import AsyncClient, Client


def methods_of(client: type) -> dict[str, Callable[..., Any]]:
    return {
        name: member
        for name, member in vars(client).items()
        if callable(member) and not name.startswith("_")
    }


def test_both_have_the_same_methods() -> None:
    assert list(methods_of(Client)) == list(methods_of(AsyncClient))


@pytest.mark.parametrize("name", methods_of(Client))
def test_a_method_takes_the_same_and_answers_the_same(name: str) -> None:
    sync, awaited = (inspect.signature(methods_of(c)[name]) for c in (Client, AsyncClient))
    assert sync.parameters == awaited.parameters
    if name not in ("watch", "record"):
        # Those two are iterators of either kind.
        assert sync.return_annotation == awaited.return_annotation
