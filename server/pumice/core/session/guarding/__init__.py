"""Checks third-party plugins: errors and wrong answers are attributed to the plugin."""
