"""What would be decided: trials in processes of their own, so that live sessions never wait."""
