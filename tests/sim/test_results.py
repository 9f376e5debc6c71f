"""What a scenario's runs tell while they play."""

from __future__ import annotations

from director.sim import loading, results
from tests.sim.scenarios import SMALL


def test_progress_is_told_every_second_of_every_run() -> None:
    """Two variants under two policies: a bar over all of them ends where its total is."""
    text = SMALL.replace("duration_s: 120", "duration_s: 10") + "policies: [director, nearest]\n"
    text += "variants: [{name: short}, {name: longer, set: {duration_s: 15}}]\n"
    loaded, told = loading.load_text(text, "small.yaml"), list[int]()
    results.play(loaded, told.append)
    assert told == [*range(10), *range(10), *range(15), *range(15)]
    assert results.seconds_of(loaded) == len(told)
