"""Hermes beside other engines: see docs/benchmarks.md."""
