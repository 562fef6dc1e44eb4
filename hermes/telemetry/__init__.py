"""What Hermes says about itself: logs without secrets, and counters."""
