"""docs/behaviours.md and the tests that show its clauses, held together."""
