"""What fails a test that uses these helpers, or warns in it."""

from __future__ import annotations


class PluginFaultError(AssertionError):
    """A plugin or action raised, so the policy under test did not run as a whole."""


class RecordingWarning(UserWarning):
    """A recording is damaged, or sessions are missing between two recordings."""
