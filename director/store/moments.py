"""The history of reports at chosen moments: what each region last said before each of them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from sqlalchemy import ARRAY, BigInteger, Text, bindparam, text

from director.store.database import Database

BATCH_ROWS = 500
"""A call reads at most this many: a report of fifty deployments is some 5 KB when compressed."""

_QUERY = text(
    """
    SELECT wanted.region, wanted.at_ms, found.body_zlib
    FROM (SELECT region, at_ms FROM unnest(:regions) AS region CROSS JOIN unnest(:moments) AS at_ms) AS wanted
    CROSS JOIN LATERAL (
        SELECT body_zlib FROM report_history
        WHERE region = wanted.region
          AND received_at <= to_timestamp(wanted.at_ms / 1000.0)
          AND received_at > to_timestamp((wanted.at_ms - :within_ms) / 1000.0)
        ORDER BY received_at DESC LIMIT 1
    ) AS found
    """
).bindparams(
    bindparam("regions", type_=ARRAY(Text)),
    bindparam("moments", type_=ARRAY(BigInteger)),
    bindparam("within_ms", type_=BigInteger),
)


class PastReport(Struct, frozen=True):
    """What a region had last said at a moment, as it came, compressed by zlib: unpacking is for a thread."""

    region: str
    at_ms: int
    body_zlib: bytes


async def reports_at(db: Database, regions: Sequence[str], moments: Sequence[int], within_ms: int) -> list[PastReport]:
    """For each region and each moment (epoch ms) its last report within `within_ms` before; none where it was silent.

    Read in batches, each within the time of one call. Raises DatabaseUnavailable.
    """
    found: list[PastReport] = []
    if not regions:
        return found
    step = max(1, BATCH_ROWS // len(regions))
    for first in range(0, len(moments), step):
        told = {"regions": list(regions), "moments": list(moments[first : first + step]), "within_ms": within_ms}
        async with db.single() as connection:
            rows = (await connection.execute(_QUERY, told)).all()
        found += [PastReport(region, at_ms, body) for region, at_ms, body in rows]
    return found
