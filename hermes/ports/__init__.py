"""Protocols that cross packages: one file a port."""
