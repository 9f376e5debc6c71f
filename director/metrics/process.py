"""What every process says of itself: its release, and what the kernel knows of it."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from director.metrics import catalog
from director.metrics.text import Page, labels


@cache
def _release() -> str:
    try:
        return version("region-director")
    except PackageNotFoundError:
        return "unknown"


@cache
def _registry() -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    return registry


def process_text() -> str:
    """`director_build_info`, and `process_*`: CPU seconds, resident memory, open files, start."""
    page = Page()
    page.many(catalog.BUILD, [(labels(catalog.BUILD, release=_release()), 1)])
    return page.text() + generate_latest(_registry()).decode()
