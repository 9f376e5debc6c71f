"""Requests for an engine, and how many of them it completes."""

from __future__ import annotations

from director.sim.world.engine import Work
from director.sim.world.stages import Serving


def make_work(number: int, prompt: float = 100, generated: float = 100, session: int = -1) -> Work:
    return Work(number, prompt, generated, 0.0, session, 0)


def completed_per_s(engine: Serving, every_s: float) -> float:
    """Kept full for 400 s, looked at every so often: requests of 500 prompt tokens and 100 generated ones on average,
    those of the first 100 s left out.
    """
    number, at_s = 0, 0.0
    while at_s < 400.0:
        while engine.waiting < 5:
            engine.submit(make_work(number, prompt=500, generated=float(50 + number * 37 % 101)), at_s)
            number += 1
        at_s += every_s
        engine.advance(at_s)
        if at_s < 100.0:
            engine.finished.clear()
    return len(engine.finished) / 300.0
