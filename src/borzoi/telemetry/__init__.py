"""Metrics of a running server: counted where things happen, rendered for Prometheus.

It does not know what is counted; `listeners/http/metrics.py` names the metrics.
"""
