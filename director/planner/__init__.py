"""The leader's loop: once a second, read what came in, make a step, publish what changed.

`lease` keeps leadership, `observe` reads the database, `loop` ticks, `run` is the process.
"""
