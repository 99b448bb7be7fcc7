"""What ``durable_check`` looks at besides the tables, and how it tells what it found."""
