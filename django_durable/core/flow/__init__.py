"""One attempt of a run: its lines of execution, what they ask of their driver, and why they end."""
