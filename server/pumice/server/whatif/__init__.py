"""What-if requests: trials in replica processes, so that live sessions never wait."""
