"""The controller of HyperNodes, with discovery from labels of nodes and from UFM."""
