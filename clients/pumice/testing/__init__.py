"""Helpers for tests of plugins, configurations and frontends.

``cluster()`` builds a cluster in memory and runs sessions on it, ``load_scenario`` and
``assert_scenario`` do so with scenario files, ``assert_replay_identical`` replays recordings.
Fixtures for pytest are in ``pumice.testing.fixtures``.
"""

from pumice.testing.clusters import Cluster, Cycle, cluster
from pumice.testing.replay import assert_replay_identical, recordings_in
from pumice.testing.scenarios import Scenario, assert_scenario, load_scenario

__all__ = [
    "Cluster",
    "Cycle",
    "Scenario",
    "assert_replay_identical",
    "assert_scenario",
    "cluster",
    "load_scenario",
    "recordings_in",
]
