"""Policies over HTTP: check one, see what it would move, apply it, go back."""
