"""Which instants fire."""
