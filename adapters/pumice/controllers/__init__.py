"""Controllers: pure reconcile functions, and the loop that performs their plans."""
