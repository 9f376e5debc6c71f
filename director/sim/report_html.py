"""One self-contained page: the checks, the comparison, and for each policy what happened over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from msgspec import structs

from director.sim import figures
from director.sim.checks import CheckResult
from director.sim.measure import Record
from director.sim.plots import Line, Span, chart
from director.sim.results import COLUMNS, Results

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1360px; padding: 0 1rem; color: #1b1b1b; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.2rem; border-bottom: 1px solid #ccc; } h3 { margin: 1.4rem 0 .3rem; }
table { border-collapse: collapse; margin: .6rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #e2e2e2; text-align: right; } th:first-child, td:first-child
{ text-align: left; } thead th { border-bottom: 2px solid #999; vertical-align: bottom; }
.ok { color: #00704a; } .broken { color: #b3261e; font-weight: 600; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(380px, 1fr)); gap: .4rem; }
.chart { width: 100%; height: auto; } .title { font-size: 12px; font-weight: 600; }
.tick { font-size: 9.5px; fill: #555; white-space: pre; }
.grid { stroke: #e6e6e6; } .limit { stroke: #777; stroke-dasharray: 4 3; } .none { color: #555; }
.wide { overflow-x: auto; }
.pairs { grid-template-columns: repeat(2, minmax(320px, 1fr)); max-width: 1000px; }
@media (max-width: 720px) { .pairs { grid-template-columns: 1fr; } }
.fault { fill: #b3261e; opacity: .08; }
details > summary { cursor: pointer; font-weight: 600; margin: .6rem 0; }
"""
_TTFT_WINDOW_S = 5
UTILISATION_TOP = 2.0
"""A policy that lets a region go to many times its slots does not flatten the others' charts."""


def page(results: Results) -> str:
    """The whole document."""
    failing = [check for check in results.checks if not check.ok]
    verdict = f"{len(failing)} of {len(results.checks)} checks fail" if failing else "Every check holds"
    body = [
        f"<h1>{escape(results.scenario)}</h1><p>{escape(results.about)}</p>",
        f'<p>Seed {results.seed}. <strong class="{"broken" if failing else "ok"}">{verdict}.</strong></p>',
        _checks(failing) if failing and len(results.variants) > 1 else "",
    ]
    for variant, records in results.variants.items():
        prefix = f"{variant}: " if variant else ""
        mine = [
            structs.replace(check, name=check.name.removeprefix(prefix))
            for check in results.checks
            if check.name.startswith(prefix)
        ]
        body.append(f"<h2>{escape(variant or 'Figures')}</h2>")
        body += [_checks(mine), _comparison(records)]
        if len(records) > 1:
            body.append(f"<h3>Side by side</h3>{_side_by_side(records)}")
        for i, record in enumerate(records.values()):
            is_open = " open" if i == 0 and len(results.variants) <= 3 else ""
            body.append(
                f"<details{is_open}><summary>{escape(record.policy)} over time</summary>{_charts(record)}</details>"
            )
    title = escape(f"{results.scenario}: simulation")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body>{''.join(body)}</body></html>\n"
    )


def _checks(checks: Sequence[CheckResult]) -> str:
    rows = (
        f"<tr><td>{escape(check.name)}</td><td>{check.value:.4g}</td><td>{escape(check.bound)}</td>"
        f'<td class="{"ok" if check.ok else "broken"}">{"holds" if check.ok else "fails"}</td></tr>'
        for check in checks
    )
    head = "<tr><th>check</th><th>value</th><th>bound</th><th></th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>" if checks else ""


def _comparison(records: Mapping[str, Record]) -> str:
    summaries = {policy: figures.summary(record) for policy, record in records.items()}
    priced = any(summary["price_per_mtok"] for summary in summaries.values())
    columns = [column for column in COLUMNS if priced or column[1] != "price_per_mtok"]
    head = "".join(f"<th>{escape(title)}</th>" for title, _, _ in columns)
    rows = []
    for policy, summary in summaries.items():
        cells = "".join(f"<td>{form.format(summary[key])}</td>" for _, key, form in columns)
        rows.append(f"<tr><td>{escape(policy)}</td>{cells}</tr>")
    table = f"<table><thead><tr><th>policy</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _side_by_side(records: Mapping[str, Record]) -> str:
    """For each policy the demand of which the first one sends most away, and every region's utilisation, all on the
    same scales."""
    first = next(iter(records.values()))
    highest = max(max(mine.utilisation) for record in records.values() for mine in record.regions.values())
    demand = max(first.streams, key=lambda name: sum(_away(first, name)))
    parts = [
        chart_
        for policy, record in records.items()
        for chart_ in (
            _shares(record, demand, f"{policy}: shares of demand {demand}", _spans(record)),
            _utilisation(record, f"{policy}: utilisation", _spans(record), min(highest, UTILISATION_TOP)),
        )
    ]
    return f'<div class="charts pairs">{"".join(parts)}</div>'


def _charts(record: Record) -> str:
    spans = _spans(record)
    parts = [_shares(record, demand, f"Shares of demand {demand}", spans) for demand in record.streams]
    parts += [_utilisation(record, "Utilisation", spans), _overflow(record, spans)]
    parts += [_ttft(record, spans), _refusals(record, spans), _cost(record, spans)]
    return f'<div class="charts">{"".join(parts)}</div>'


def _spans(record: Record) -> list[Span]:
    return [
        Span(fault.at_s, fault.until_s or record.seconds, f"{fault.kind}: {', '.join(fault.regions)}")
        for fault in record.scenario.faults
    ]


def _shares(record: Record, demand: str, title: str, spans: Sequence[Span]) -> str:
    lines = [Line(region, figures.share_series(record, demand, region)) for region in record.regions]
    return chart(title, lines, record.seconds, unit="of its requests", spans=spans, limit=1.0)


def _utilisation(record: Record, title: str, spans: Sequence[Span], top_min: float = 0.0) -> str:
    lines = [Line(region, mine.utilisation) for region, mine in record.regions.items()]
    return chart(
        title, lines, record.seconds, unit="requests inside ÷ slots", spans=spans, limit=1.0, top_min=top_min,
        top_max=UTILISATION_TOP,
    )  # fmt: skip


def _away(record: Record, demand: str) -> list[float]:
    """The part that home does not take, by second."""
    home = record.homes[demand]
    return [1.0 - share for share in figures.share_series(record, demand, home)] if home else [0.0] * record.seconds


def _overflow(record: Record, spans: Sequence[Span]) -> str:
    lines = [Line(demand, _away(record, demand)) for demand in record.streams]
    return chart("Overflow: what home does not take", lines, record.seconds, unit="of each demand", spans=spans)


def _refusals(record: Record, spans: Sequence[Span]) -> str:
    """Nothing to draw is said in words."""
    refused = [0.0] * record.seconds
    failed = [0.0] * record.seconds
    for stream in record.streams.values():
        for second in range(record.seconds):
            refused[second] += stream.refused[second]
            failed[second] += stream.failed[second]
    if not any(refused) and not any(failed):
        return '<p class="none">No request was refused, and none failed.</p>'
    lines = [Line("refused", figures.means(refused)), Line("failed", figures.means(failed))]
    return chart("Refused and failed", lines, record.seconds, unit="requests/s", spans=spans)


def _ttft(record: Record, spans: Sequence[Span]) -> str:
    buckets: list[list[float]] = [[] for _ in range(record.seconds // _TTFT_WINDOW_S + 1)]
    for stream in record.streams.values():
        for at_s, value in zip(stream.arrived_s, stream.ttft_s, strict=True):
            buckets[int(at_s) // _TTFT_WINDOW_S].append(value)
    lines = []
    for q, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99")):
        values = [figures.quantile(bucket, q) for bucket in buckets for _ in range(_TTFT_WINDOW_S)]
        lines.append(Line(name, values[: record.seconds]))
    return chart("Time to first token", lines, record.seconds, unit="s", spans=spans)


def _cost(record: Record, spans: Sequence[Span]) -> str:
    if not any(record.cost):
        return '<p class="none">No region has a price, so nothing costs anything.</p>'
    lines = [Line("cost", [value * 3600.0 for value in figures.means(record.cost, 30)])]
    return chart("Cost of completed tokens", lines, record.seconds, unit="price/h", spans=spans)
