"""Controllers: pure reconcile functions, and the loop that performs what they ask for."""
