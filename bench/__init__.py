"""Benchmarks: ratios within one run, best of five, never absolute goals; see RESULTS.md."""
