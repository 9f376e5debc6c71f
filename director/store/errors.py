"""Errors of the embedded server."""

from __future__ import annotations


class EmbeddedPostgresFailed(Exception):
    """The embedded server cannot run here; the message is one line that says why and what to do."""
