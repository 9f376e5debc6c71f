"""The leader's loop: once a second, read what came in, make a step, publish what changed.

`lease` keeps leadership, `outage` tells silence from absence, `loop` ticks, `run` is the process.
"""
