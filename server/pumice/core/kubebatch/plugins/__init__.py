"""The plugins of kube-batch that differ from those of Volcano."""
