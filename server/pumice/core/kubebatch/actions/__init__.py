"""The actions of kube-batch."""
