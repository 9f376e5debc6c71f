"""Errors whose fault is ours. What the world does wrong is a value with a reason, never one of these."""

from __future__ import annotations


class InvariantBroken(Exception):
    """A programmer's error: something that must hold does not. Nothing is published; the last plan stays."""


class ImpossibleTransition(Exception):
    """A state machine was told something that cannot happen in its state. Nothing changed."""
