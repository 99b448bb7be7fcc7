"""Values and failures as text that comes back exactly."""
