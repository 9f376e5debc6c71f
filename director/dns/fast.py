"""The hot path: three look-ups and a concatenation.

The OPT record as it came gives the asker's network and the OPT record to send; the question gives its entry; the two
give a prepared body. Whatever is not remembered (a new asker, a rare name, an odd flag) is left to the complete path,
which answers it and remembers. Nothing is decided here: a property test holds both paths to the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from director.dns.book import AnswerBook
from director.dns.edns import Reply
from director.dns.limits import RateLimiter
from director.dns.memo import Memo

REPLIES_MAX = 20_000
"""Of each sort, twice that at times; each is some 500 bytes."""
HEADER_AND_QUESTION_MIN = 17
_ONE_QUESTION = b"\0\1\0\0\0\0\0"
LIMITED = b""
"""The answer is known and the asker has had its share: the caller says what to do."""

FastAnswer = Callable[[bytes, bytes], bytes | None]


class Askers:
    """Replies by what makes them: the bytes behind the question, and the source where it matters.

    What carries cookies is forgotten whenever new cookies begin; everything, when a policy brings other networks.
    """

    def __init__(self) -> None:
        self.by_opt: Memo[bytes, Reply] = Memo(REPLIES_MAX)
        self.by_source: Memo[bytes, Reply] = Memo(REPLIES_MAX)

    def remember(self, data: bytes, question_bytes: int, source: bytes, reply: Reply) -> None:
        """Keep the reply of a query that the complete path answered from a book, for the next like it."""
        behind = data[12 + question_bytes :]
        # Only where the rest is one OPT record or nothing, as its count says: the hot path does not look inside.
        if data[4:11] != _ONE_QUESTION or data[11] != (1 if behind else 0) or bool(behind) != reply.has_edns:
            return
        if reply.source_matters:
            # An OPT record says where it ends: no other two give the same key.
            self.by_source.put(behind + source, reply)
        else:
            self.by_opt.put(behind, reply)

    def forget_cookies(self) -> None:
        """New cookies begin: those in memory carry the old time."""
        self.by_source.clear()

    def clear(self) -> None:
        self.by_opt.clear()
        self.by_source.clear()


def fast_path(book: AnswerBook, askers: Askers, limiter: RateLimiter) -> FastAnswer:
    """The hot path over one book. The function takes a message and its source (4 or 16 bytes).

    None: leave it to the complete path. LIMITED: over the limit, and counted.
    """
    known, strangers = book.known, book.strangers
    by_opt, by_source = askers.by_opt, askers.by_source
    young_by_opt, young_by_source = by_opt.young, by_source.young
    over = limiter.over

    def answer(data: bytes, source: bytes) -> bytes | None:
        # A standard query (QR, opcode, AA, TC clear) with one question and nothing else but perhaps an OPT record.
        if len(data) < HEADER_AND_QUESTION_MIN or data[2] & 0xFE or data[4:11] != _ONE_QUESTION:
            return None
        after = data.find(b"\0", 12) + 5
        behind = data[after:]
        if data[11] != (1 if behind else 0):
            return None
        question = data[12:after]
        entry = known.get(question)
        if entry is None:
            lower = question[:-4].lower() + question[-4:]
            entry = known.get(lower) or strangers.get(lower)
            if entry is None:
                return None
        reply = young_by_opt.get(behind) or young_by_source.get(behind + source)
        if reply is None:
            reply = by_opt.get(behind) or by_source.get(behind + source)
            if reply is None:
                return None
        network = reply.network
        body = entry.fixed or entry.picks.get(network) or entry.pick(network)
        if behind:
            opt = reply.opts[body.scope] or reply.plain_opt(body.scope)
            if body.ede:
                opt = reply.opt(body.scope, body.ede)
            head = body.heads[data[2] + 2]
        else:
            opt = b""
            head = body.heads[data[2]]
        wire = data[:2] + head + question + body.tail + opt
        if len(wire) > reply.bytes_max:
            return None
        if not reply.cookie_valid and over(source):
            return LIMITED
        body.tally.udp += 1
        return wire

    return answer
