"""A program that cannot be loaded."""

raise RuntimeError("not today")
