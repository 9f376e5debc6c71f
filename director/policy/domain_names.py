"""What may be called a domain name here: LDH labels (RFC 1035, 5891), underscores where services have them."""

from __future__ import annotations

import re
from typing import NamedTuple

LABEL_LENGTH_MAX = 63
NAME_LENGTH_MAX = 253
"""255 octets on the wire, without the two that text does not show (RFC 1035, 2.3.4)."""

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?")


class NameFault(NamedTuple):
    message: str
    expected: str
    suggestion: str = ""


def name_fault(text: str, *, wildcard: bool = False) -> NameFault | None:
    """What is wrong with a name without its final dot, or None. `wildcard`: whether `*` may be the leftmost label."""
    expected = "a domain name in lowercase without its final dot"
    if not text.isascii():
        return NameFault("holds letters beyond ASCII", "the name's ASCII form (xn--…)", _ascii_form(text))
    if text != text.lower() or text.endswith("."):
        return NameFault("is not in the form that names are compared in", expected, text.lower().rstrip("."))
    if len(text) > NAME_LENGTH_MAX:
        return NameFault(f"has {len(text)} characters", f"at most {NAME_LENGTH_MAX}")
    labels = text.split(".")
    for at, label in enumerate(labels):
        if label == "*" and wildcard:
            if at == 0:
                continue
            return NameFault("has a wildcard that is not leftmost", "* as the first label, or none")
        if not label:
            return NameFault("has an empty label", expected)
        if len(label) > LABEL_LENGTH_MAX:
            return NameFault(f"has a label of {len(label)} characters", f"at most {LABEL_LENGTH_MAX}")
        if not _LABEL.fullmatch(label):
            return NameFault(f'has the label "{label}"', "letters, digits, hyphens (not at an end) and underscores")
    return None


def is_below(name: str, ancestor: str) -> bool:
    """Whether `name` is `ancestor` or stands under it."""
    return name == ancestor or name.endswith("." + ancestor)


def absolute(label: str, apex: str) -> str:
    """The full name of an entry of a zone."""
    return apex if label == "@" else f"{label}.{apex}"


def _ascii_form(text: str) -> str:
    try:
        return text.encode("idna").decode("ascii")
    except UnicodeError:
        return ""
