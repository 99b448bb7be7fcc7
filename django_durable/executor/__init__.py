"""One attempt of one run: a claim goes in, an outcome comes out."""
