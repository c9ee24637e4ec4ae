"""Checks third-party plugins: errors and invalid results are attributed to the plugin."""
