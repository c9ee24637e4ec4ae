"""The source of node usage, from the key ``metrics`` of a scheduler configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from pumice.patterns.golang import parse_bool, parse_duration_ns

PROMETHEUS, CUSTOM_METRICS, ELASTICSEARCH = "prometheus", "prometheus_adaptor", "elasticsearch"
_DEFAULT_SECONDS = 30.0
# Shortest interval between polls.
_LEAST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class UsageSettings:
    """A source of usage data and its interval. The core has checked the configuration."""

    type: str
    address: str = ""
    interval_seconds: float = _DEFAULT_SECONDS
    skips_verification: bool = False
    index: str = "metricbeat-*"
    host_field: str = "host.hostname"
    username: str = ""
    password: str = ""


def usage_settings(scheduler_conf: str) -> UsageSettings | None:
    """Reads the settings; None: the configuration has no source, or is unreadable."""
    try:
        data = yaml.safe_load(scheduler_conf)
    except yaml.YAMLError:
        return None
    metrics = data.get("metrics") if isinstance(data, Mapping) else None
    if not isinstance(metrics, Mapping) or metrics.get("type") not in (
        PROMETHEUS,
        CUSTOM_METRICS,
        ELASTICSEARCH,
    ):
        return None
    interval_ns = parse_duration_ns(_text(metrics, "interval"))
    seconds = interval_ns / 1e9 if interval_ns is not None and interval_ns > 0 else _DEFAULT_SECONDS
    return UsageSettings(
        type=str(metrics["type"]),
        address=_text(metrics, "address").rstrip("/"),
        interval_seconds=max(seconds, _LEAST_SECONDS),
        skips_verification=parse_bool(_text(metrics, "tls.insecureSkipVerify")) is True,
        index=_text(metrics, "elasticsearch.index") or "metricbeat-*",
        host_field=_text(metrics, "elasticsearch.hostnameFieldName") or "host.hostname",
        username=_text(metrics, "elasticsearch.username"),
        password=_text(metrics, "elasticsearch.password"),
    )


def _text(metrics: Mapping[str, Any], key: str) -> str:
    value = metrics.get(key, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else ""
