"""Plain Python, no Django: what a workflow means, how values are stored, when things are tried again or fire."""
