"""What-if requests: trials in replica processes, which delay no live session."""
