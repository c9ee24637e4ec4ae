"""Failures and warnings of tests that use these helpers."""

from __future__ import annotations


class PluginFaultError(AssertionError):
    """A fault of a plugin or action, so that the policy under test did not run completely."""


class RecordingWarning(UserWarning):
    """Damage of a recording, or missing sessions between two recordings."""
