"""One self-contained page: the checks, the comparison, and for each policy what happened over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

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
.grid { stroke: #e6e6e6; } .fault { fill: #b3261e; opacity: .08; }
details > summary { cursor: pointer; font-weight: 600; margin: .6rem 0; }
"""
_TTFT_WINDOW_S = 5


def page(results: Results) -> str:
    """The whole document."""
    held = sum(check.ok for check in results.checks)
    verdict = (
        "every check holds" if results.ok else f"{len(results.checks) - held} of {len(results.checks)} checks fail"
    )
    body = [
        f"<h1>{escape(results.scenario)}</h1><p>{escape(results.about)}</p>",
        f'<p>Seed {results.seed}. <strong class="{"ok" if results.ok else "broken"}">{verdict}.</strong></p>',
        "<h2>Checks</h2>",
        _checks(results.checks),
    ]
    for variant, records in results.variants.items():
        body.append(f"<h2>{escape(variant or 'Policies side by side')}</h2>")
        body.append(_comparison(records))
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
        f"<tr><td>{escape(check.name)}</td><td>{check.value:g}</td><td>{escape(check.bound)}</td>"
        f'<td class="{"ok" if check.ok else "broken"}">{"holds" if check.ok else "fails"}</td></tr>'
        for check in checks
    )
    head = "<tr><th>check</th><th>value</th><th>bound</th><th></th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _comparison(records: Mapping[str, Record]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title, _, _ in COLUMNS)
    rows = []
    for policy, record in records.items():
        summary = figures.summary(record)
        cells = "".join(f"<td>{form.format(summary[key])}</td>" for _, key, form in COLUMNS)
        rows.append(f"<tr><td>{escape(policy)}</td>{cells}</tr>")
    return f"<table><thead><tr><th>policy</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _charts(record: Record) -> str:
    seconds, regions = record.seconds, list(record.regions)
    spans = [
        Span(fault.at_s, fault.until_s or seconds, f"{fault.kind}: {', '.join(fault.regions)}")
        for fault in record.scenario.faults
    ]
    parts = ['<div class="charts">']
    for demand in record.streams:
        shares = [Line(region, figures.share_series(record, demand, region)) for region in regions]
        parts.append(chart(f"Shares of demand {demand}", shares, seconds, spans=spans))
    parts.append(
        chart(
            "Utilisation: requests inside ÷ slots",
            [Line(region, record.regions[region].utilisation) for region in regions],
            seconds,
            spans=spans,
        )
    )
    parts.append("</div>")
    parts += ['<div class="charts">', _overflow(record, spans), _refusals(record, spans)]
    parts += [_ttft(record, spans), _cost(record, spans), "</div>"]
    return "".join(parts)


def _overflow(record: Record, spans: Sequence[Span]) -> str:
    lines = [
        Line(demand, [1.0 - share for share in figures.share_series(record, demand, record.homes[demand])])
        for demand in record.streams
    ]
    return chart("Share that home does not take, by demand", lines, record.seconds, spans=spans)


def _refusals(record: Record, spans: Sequence[Span]) -> str:
    refused = [0.0] * record.seconds
    failed = [0.0] * record.seconds
    for stream in record.streams.values():
        for second in range(record.seconds):
            refused[second] += stream.refused[second]
            failed[second] += stream.failed[second]
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
    lines = [Line("cost", [value * 3600.0 for value in figures.means(record.cost, 30)])]
    return chart("Cost of completed tokens", lines, record.seconds, unit="price/h", spans=spans)
