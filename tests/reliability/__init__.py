"""What must hold when workers freeze, when two act at one moment, and in whatever order things happen."""
