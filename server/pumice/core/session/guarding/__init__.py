"""Checks what plugins of others do: errors and wrong answers are attributed to the plugin."""
