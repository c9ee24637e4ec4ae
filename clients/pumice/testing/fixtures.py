"""Fixtures for pytest: name this module in ``pytest_plugins`` of your conftest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pumice.testing.clusters import Cluster, cluster


@pytest.fixture
def pumice_cluster() -> Callable[..., Cluster]:
    """Makes clusters: ``pumice_cluster(conf)``, or without one the built-in configuration."""
    return cluster


@pytest.fixture
def empty_cluster() -> Cluster:
    """A cluster with the built-in configuration and nothing in it."""
    return cluster()
