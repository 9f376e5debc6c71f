"""Time in SQL. All of it is the database's clock; outside it is epoch milliseconds as an int."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Interval, cast, func, literal


def database_now() -> ColumnElement[datetime]:
    """The moment of evaluation, not the transaction's start: a transaction that waited for a lock must see the wait."""
    return func.clock_timestamp()


def as_ms(moment: ColumnElement[Any]) -> ColumnElement[int]:
    """A timestamp as epoch ms, rounded down."""
    return cast(func.floor(func.extract("epoch", moment) * 1000), BigInteger)


def from_ms(at_ms: int) -> ColumnElement[datetime]:
    """Epoch ms as a timestamp."""
    return func.to_timestamp(literal(at_ms, BigInteger) / literal(1000.0))


def seconds(length_s: float) -> ColumnElement[Any]:
    """A span, s, as an interval."""
    return cast(func.make_interval(0, 0, 0, 0, 0, 0, float(length_s)), Interval)


def ago(length_s: float) -> ColumnElement[datetime]:
    """`length_s` seconds before this moment."""
    return database_now() - seconds(length_s)


def ahead(length_s: float) -> ColumnElement[datetime]:
    """`length_s` seconds after this moment."""
    return database_now() + seconds(length_s)
