"""What apps, commands and the admin call: start, look, steer."""
