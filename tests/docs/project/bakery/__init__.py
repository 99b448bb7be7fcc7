"""The app of the quickstart."""
