"""What authors of functions, sources and actions use in their tests."""
