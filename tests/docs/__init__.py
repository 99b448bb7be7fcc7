"""What the documentation's examples need to run, and how they are read."""
