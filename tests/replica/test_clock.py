from __future__ import annotations

from director.replica.clock import Clock

MS = 1_000_000
S = 1_000 * MS


class Monotonic:
    def __init__(self) -> None:
        self.ns = 5_000 * S

    def __call__(self) -> int:
        return self.ns


def clock_at(monotonic: Monotonic, wall_ms: int) -> Clock:
    return Clock(monotonic_ns=monotonic, wall_ns=lambda: wall_ms * MS)


def test_the_wall_clock_stands_in_until_the_database_was_read() -> None:
    """Without a database, time is the wall clock at start, carried on by the monotonic clock."""
    monotonic = Monotonic()
    clock = clock_at(monotonic, 1_000_000)
    monotonic.ns += 7 * S
    assert clock.now_ms() == 1_007_000
    assert not clock.from_database


def test_the_databases_clock_wins_over_a_wrong_wall_clock() -> None:
    """A host an hour off still agrees with the others."""
    monotonic = Monotonic()
    clock = clock_at(monotonic, 1_000_000)
    clock.reading(4_600_000, monotonic.ns, monotonic.ns + 2 * MS)
    monotonic.ns += 1 * S
    assert clock.now_ms() in (4_600_998, 4_600_999)
    assert clock.from_database


def test_a_slow_reading_does_not_replace_a_quick_one() -> None:
    """A reading that took 800 ms may be off by 400: it is not let near one that took 2 ms."""
    monotonic = Monotonic()
    clock = clock_at(monotonic, 0)
    clock.reading(1_000_000, monotonic.ns, monotonic.ns + 2 * MS)
    before = clock.now_ms()
    # Answered late on the way back: the middle of the interval is 400 ms after the true moment.
    clock.reading(1_000_001, monotonic.ns, monotonic.ns + 800 * MS)
    assert clock.now_ms() == before


def test_a_database_whose_clock_moved_is_followed() -> None:
    """After a fail-over to a host an hour ahead, time is that host's, at once."""
    monotonic = Monotonic()
    clock = clock_at(monotonic, 0)
    clock.reading(1_000_000, monotonic.ns, monotonic.ns + 2 * MS)
    clock.reading(4_600_000, monotonic.ns, monotonic.ns + 900 * MS)
    assert abs(clock.now_ms() - 4_600_000) <= 450


def test_an_old_reading_gives_way_to_a_slower_one() -> None:
    """Oscillators drift: a minute later a somewhat slower reading is the better one."""
    monotonic = Monotonic()
    clock = clock_at(monotonic, 0)
    clock.reading(1_000_000, monotonic.ns, monotonic.ns + 2 * MS)
    monotonic.ns += 61 * S
    clock.reading(1_061_003, monotonic.ns, monotonic.ns + 4 * MS)
    assert clock.now_ms() == 1_061_001
