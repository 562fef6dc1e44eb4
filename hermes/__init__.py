"""Hermes: a polling agent that claims cards from a task board and runs each one once."""
