"""What pumice costs: benchmarks on clusters made from a seed, one JSON line a result."""
