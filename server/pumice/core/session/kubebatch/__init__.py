"""kube-batch's ways within a session: how answers combine, what fits, what is written."""
