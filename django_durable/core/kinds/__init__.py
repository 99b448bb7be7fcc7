"""The step kinds: each is a file that knows its journal entry, and decides *value*, *run this* or *wait*."""
