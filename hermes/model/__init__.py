"""Frozen values that cross packages."""
