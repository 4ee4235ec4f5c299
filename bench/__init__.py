"""Benchmarks: ratios within one run, never absolute goals; see RESULTS.md."""
