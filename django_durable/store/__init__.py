"""The database: transitions (the only writers of a run's status), the journal, and the SQL of each vendor."""
