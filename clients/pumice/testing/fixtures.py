"""Fixtures for pytest. Name this module in ``pytest_plugins`` of your conftest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pumice.testing.clusters import Cluster, cluster


@pytest.fixture
def pumice_cluster() -> Callable[..., Cluster]:
    """A factory of clusters: ``pumice_cluster(conf)``; by default with the built-in configuration."""
    return cluster


@pytest.fixture
def empty_cluster() -> Cluster:
    """An empty cluster with the built-in configuration."""
    return cluster()
