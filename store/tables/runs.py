"""Placeholder made while the tables are being written."""
