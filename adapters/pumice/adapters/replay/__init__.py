"""An adapter that streams a recording into a live core."""
