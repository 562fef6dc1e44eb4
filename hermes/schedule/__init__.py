"""When a poll is due, and who gets to run it."""
