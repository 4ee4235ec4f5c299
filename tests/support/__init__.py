"""Shared by tests and benches: servers, faulty disks, wire strategies, golden recordings."""
