"""Numbers about a running server: counted where things happen, written as text for Prometheus.

It knows nothing of what is counted; `listeners/http/metrics.py` gives the numbers their names.
"""
