"""The app of the examples of schedules."""
