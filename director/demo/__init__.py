"""`director demo`: the director with a small live fleet, so that everything can be seen moving.

The fleet is simulated where GPUs would be, and real everywhere else: every request is decided over HTTP, sent over
HTTP, and takes a place in an engine for as long as it runs; agents scrape what engines expose and report it.
"""
