"""What ``manage.py demo`` and ``manage.py serve`` do: processes, a murder, and the counting afterwards."""
