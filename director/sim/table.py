"""The tables of `docs/simulator.md`, from every shipped scenario: `python -m director.sim.table docs/simulator.md`.

It takes minutes, and rewrites what stands between the marks.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from director.sim import figures, loading, results
from director.sim.command import shipped_folders
from director.sim.measure import Record
from director.sim.scenario import Kept

BEGIN, END = "<!-- made by director.sim.table -->", "<!-- end -->"
_SHOWN = (
    "home_ratio",
    "refused_ratio",
    "ttft_s_p50",
    "ttft_s_p90",
    "ttft_s_p99",
    "e2e_s_p95",
    "utilisation_max",
    "reversals",
)


def main(document: Path) -> int:
    """Run, write, and return 1 when a check failed."""
    folder = next(each for each in shipped_folders() if each.is_dir())
    parts, failed = [], 0
    for path in sorted(folder.glob("*.yaml")):
        loaded = loading.load(path)
        judged = results.play(loaded)
        failed += sum(not check.ok for check in judged.checks)
        sys.stderr.write(
            f"{judged.scenario}: {sum(check.ok for check in judged.checks)} of {len(judged.checks)} hold\n"
        )
        parts.append(section(judged) + kept_seeds(loaded.kept))
    text = document.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    document.write_text(f"{before}{BEGIN}\n\n{''.join(parts)}{END}{after}", encoding="utf-8")
    return int(failed > 0)


def section(judged: results.Results) -> str:
    """One scenario: what it is, its checks, and its policies side by side where there are several."""
    requests = sum(record.requests for records in judged.variants.values() for record in records.values())
    wall_s = sum(record.wall_s for records in judged.variants.values() for record in records.values())
    out = [
        f"### {judged.scenario}\n{judged.about}\n\n",
        f"{requests:,} requests in {wall_s:.0f} s, seed {judged.seed}.\n\n",
    ]
    for variant, records in judged.variants.items():
        if len(records) > 1:
            out.append(f"{variant}\n\n" if variant else "")
            out.append(comparison(records))
    out.append("| check | value | bound | |\n| --- | ---: | ---: | --- |\n")
    out += [
        f"| {check.name} | {check.value:.3g} | {check.bound} | {'' if check.ok else '**fails**'} |\n"
        for check in judged.checks
    ]
    return "".join(out) + "\n"


def kept_seeds(kept: tuple[Kept, ...]) -> str:
    """The failing seeds that the file keeps; `director simulate NAME --kept` runs them."""
    if not kept:
        return ""
    rows = []
    for each in kept:
        name = f"{each.variant}: {each.check}" if each.variant else each.check
        rows.append(f"| {each.seed} | {name} | {each.why} |\n")
    return "| kept seed | check that fails | why |\n| ---: | --- | --- |\n" + "".join(rows) + "\n"


def comparison(records: Mapping[str, Record]) -> str:
    columns = [column for column in results.COLUMNS if column[1] in _SHOWN]
    head = "| policy | " + " | ".join(title for title, _, _ in columns) + " |\n"
    rule = "| --- |" + " ---: |" * len(columns) + "\n"
    rows = []
    for policy, record in records.items():
        summary = figures.summary(record)
        rows.append(f"| {policy} | " + " | ".join(form.format(summary[key]) for _, key, form in columns) + " |\n")
    return head + rule + "".join(rows) + "\n"


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
