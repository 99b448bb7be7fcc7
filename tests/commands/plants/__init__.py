"""A plant for each way in which an invariant can be broken."""
