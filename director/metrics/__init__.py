"""What the director exports to Prometheus: `catalog` declares it, `text` writes it, `scrape` serves it on a port.

`page` makes docs/metrics.md of the catalog.
"""
