"""One occurrence of a poll."""
