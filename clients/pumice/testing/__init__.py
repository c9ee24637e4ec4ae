"""Helpers for tests of plugins, configurations and frontends.

``cluster()`` builds a cluster in memory and runs sessions on it, ``load_scenario`` and
``assert_scenario`` run scenario files, ``assert_replay_identical`` replays recordings, and
``what_if`` simulates another policy on recordings. Fixtures for pytest are in
``pumice.testing.fixtures``.
"""

from pumice.testing.clusters import Cluster, Cycle, cluster
from pumice.testing.errors import PluginFaultError, RecordingWarning
from pumice.testing.replay import assert_replay_identical, recordings_in
from pumice.testing.scenarios import Scenario, assert_scenario, load_scenario
from pumice.testing.what_if import JobComparison, WhatIfResult, what_if

__all__ = [
    "Cluster",
    "Cycle",
    "JobComparison",
    "PluginFaultError",
    "RecordingWarning",
    "Scenario",
    "WhatIfResult",
    "assert_replay_identical",
    "assert_scenario",
    "cluster",
    "load_scenario",
    "recordings_in",
    "what_if",
]
