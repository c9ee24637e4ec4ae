"""What the owner of a cluster writes into the log, a limited number of lines at a time."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pumice.server.wire import kind_word
from pumice.v1 import cluster_service_pb2, configuration_pb2, object_pb2

log = logging.getLogger("pumice.server")
# Lines about one batch of ops, or about one configuration.
MAX_LINES = 20


def log_rejected(cluster: str, rejected: Sequence[object_pb2.RejectedObject]) -> None:
    for item in rejected[:MAX_LINES]:
        where = f"{kind_word(item.kind)} {item.key} ({item.uid})"
        log.warning("%s: cannot use %s: %s %s", cluster, where, item.field, item.reason)
    _log_rest(cluster, len(rejected), "objects that cannot be used")


def log_configuration(cluster: str, result: cluster_service_pb2.ConfigurationResult) -> None:
    """Says which configuration is in use; problems and warnings are told apart."""
    in_use = result.effective_config_hash
    errors = [problem for problem in result.problems if not problem.warning]
    warnings = [problem for problem in result.problems if problem.warning]
    if result.accepted:
        log.info("%s: configuration %.12s is in use", cluster, in_use)
    elif in_use:
        log.error("%s: configuration refused, %.12s stays in use", cluster, in_use)
    else:
        log.error("%s: no valid configuration: nothing is scheduled", cluster)
    for problem in errors[:MAX_LINES]:
        log.error("%s: configuration problem: %s", cluster, _told(problem))
    _log_rest(cluster, len(errors), "configuration problems")
    for problem in warnings[:MAX_LINES]:
        log.warning("%s: configuration warning: %s", cluster, _told(problem))
    _log_rest(cluster, len(warnings), "configuration warnings")


def _told(problem: configuration_pb2.ConfigurationProblem) -> str:
    line = f"line {problem.line}: " if problem.line else ""
    path = f"{problem.path}: " if problem.path else ""
    return f"{line}{path}{problem.problem}"


def _log_rest(cluster: str, count: int, what: str) -> None:
    if count > MAX_LINES:
        log.warning("%s: %d more %s", cluster, count - MAX_LINES, what)
