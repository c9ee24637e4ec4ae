"""The built-in configuration as text."""

from __future__ import annotations

from pumice.core.configuration import Configuration


def written(configuration: Configuration) -> str:
    """The YAML text of a configuration without flags and arguments."""
    lines = ["# built in", f'actions: "{", ".join(configuration.actions)}"', "tiers:"]
    for tier in configuration.tiers:
        lines += ["- plugins:", *(f"  - name: {options.name}" for options in tier)]
    return "\n".join(lines) + "\n"
