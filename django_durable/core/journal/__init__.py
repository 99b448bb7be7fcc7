"""What is journaled, and how an attempt sees it."""
