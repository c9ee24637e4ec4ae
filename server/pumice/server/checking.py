"""Checks a configuration and describes its lines."""

from __future__ import annotations

from pumice.core.registry import Registry
from pumice.server.configuration import ConfigurationRefusedError, read
from pumice.server.configuration_notes import notes_of
from pumice.v1 import configuration_pb2, inspection_service_pb2


def check(
    configuration: configuration_pb2.Configuration, registry: Registry
) -> inspection_service_pb2.CheckConfigResponse:
    """Checks a configuration. Problems are part of the response; nothing is raised."""
    try:
        effective = read(configuration, registry)
    except ConfigurationRefusedError as error:
        return inspection_service_pb2.CheckConfigResponse(problems=error.problem_messages)
    catalog = registry.for_compat(configuration.compat).catalog()
    return inspection_service_pb2.CheckConfigResponse(
        valid=True,
        problems=effective.warnings,
        notes=notes_of(configuration.scheduler_conf, catalog),
        config_hash=effective.hash,
    )
