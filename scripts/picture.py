"""Draw the dashboard as a picture: its own queries, asked of a Prometheus, in a page that a browser renders.

`python scripts/picture.py http://127.0.0.1:9090 docs/images/dashboard.png [UNTIL]` needs Chromium; UNTIL is
in seconds since 1970, now if omitted. It shows what the panels answer, not what Grafana makes of them.
"""

import html
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
COLUMN, LINE, MARGIN = 52, 26, 6
#: Points that are further apart are not joined, in seconds.
GAP: Final = 12
SECONDS: Final = 600
COLOURS: Final = ("#3b7dd8", "#e08a1e", "#3a9d5d", "#c0392b", "#8e5bb5", "#7f8c8d", "#16a0a0", "#b8860b")
MOST_SERIES: Final = 8
_LEGEND = re.compile(r"{{(\w+)}}")

Series = tuple[str, list[tuple[float, float]]]


def main(arguments: Sequence[str]) -> int:
    server, target, *until = arguments
    now = float(until[0]) if until else time.time()
    dashboard = json.loads((ROOT / "deploy" / "monitoring" / "dashboard.json").read_text())
    parts = [_drawn(panel, server, now) for panel in dashboard["panels"]]
    bottom = max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in dashboard["panels"])
    width, height = 24 * COLUMN + 2 * MARGIN, bottom * LINE + 2 * MARGIN
    page = f'<meta charset="utf-8"><style>{_STYLE}</style>{"".join(parts)}'
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "dashboard.html"
        file.write_text(page, encoding="utf-8")
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={folder}", f"--window-size={width},{height}", f"--screenshot={target}"]
        subprocess.run([*command, file.as_uri()], check=True, timeout=300, capture_output=True)
    return 0


_STYLE: Final = """
body { margin: 0; background: #f4f5f7; font: 11px "DejaVu Sans", sans-serif; color: #222; }
.panel { position: absolute; background: #fff; border: 1px solid #d8dbe0; overflow: hidden;
  box-sizing: border-box; padding: 5px; }
.row { position: absolute; font-weight: bold; font-size: 14px; padding-top: 6px; }
.title { font-weight: bold; margin-bottom: 2px; white-space: nowrap; }
.stat { font-size: 34px; text-align: center; padding-top: 12px; }
.legend span { margin-right: 8px; white-space: nowrap; font-size: 10px; }
.legend { line-height: 13px; height: 39px; overflow: hidden; }
"""


def _drawn(panel: dict[str, object], server: str, now: float) -> str:
    place = panel["gridPos"]
    assert isinstance(place, dict)
    left, top = place["x"] * COLUMN + MARGIN, place["y"] * LINE + MARGIN
    title = html.escape(str(panel["title"]))
    if panel["type"] == "row":
        return f'<div class="row" style="left:{left}px;top:{top}px">{title}</div>'
    width, height = place["w"] * COLUMN - MARGIN, place["h"] * LINE - MARGIN
    found = list(_answers(panel, server, now))
    unit = str(panel["fieldConfig"]["defaults"]["unit"])  # type: ignore[index]
    inside = _number(found, unit) if panel["type"] == "stat" else _graph(found, unit, width - 12, height - 70)
    style = f"left:{left}px;top:{top}px;width:{width}px;height:{height}px"
    return f'<div class="panel" style="{style}"><div class="title">{title}</div>{inside}</div>'


def _answers(panel: dict[str, object], server: str, now: float) -> Iterator[Series]:
    for target in panel["targets"]:  # type: ignore[attr-defined]
        query = target["expr"].replace("$__rate_interval", "1m").replace("$job", ".+")
        asked = {"query": query, "start": now - SECONDS, "end": now, "step": 5}
        url = f"{server}/api/v1/query_range?{urllib.parse.urlencode(asked)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            for series in json.load(answer)["data"]["result"]:
                labels = series["metric"]
                legend = str(target["legendFormat"])
                for name in _LEGEND.findall(legend):
                    legend = legend.replace(f"{{{{{name}}}}}", labels.get(name, ""))
                points = [(float(when), float(value)) for when, value in series["values"] if value != "NaN"]
                if points:
                    yield legend.strip(), points


def _number(found: Sequence[Series], unit: str) -> str:
    value = found[0][1][-1][1] if found else 0.0
    return f'<div class="stat">{_told(value, unit)}</div>'


def _graph(found: Sequence[Series], unit: str, width: int, height: int) -> str:
    if not found:
        return '<div class="stat" style="color:#999;font-size:14px">no data in this run</div>'
    shown = sorted(found, key=lambda each: -max(value for _, value in each[1]))[:MOST_SERIES]
    last = max(when for _, points in shown for when, _ in points)
    first = min(when for _, points in found for when, _ in points)
    most = max(max(value for _, points in shown for _, value in points), 1e-9)
    inner = width - 46
    lines = [
        f'<text x="40" y="{at + 4}" text-anchor="end" font-size="9" fill="#666">{_told(value, unit)}</text>'
        f'<line x1="44" x2="{width}" y1="{at}" y2="{at}" stroke="#eee"/>'
        for at, value in ((6, most), (height / 2, most / 2), (height - 6, 0.0))
    ]
    names = []
    for (name, points), colour in zip(shown, COLOURS, strict=False):
        steps, before = [], 0.0
        for when, value in points:
            x = 44 + inner * (when - first) / max(last - first, 1)
            y = 6 + (height - 12) * (1 - value / most)
            steps.append(f"{'L' if when - before <= GAP else 'M'}{x:.1f} {y:.1f}")
            before = when
        lines.append(f'<path d="{"".join(steps)}" fill="none" stroke="{colour}" stroke-width="1.4"/>')
        names.append(f'<span style="color:{colour}">&#9644; {html.escape(name)}</span>')
    drawing = f'<svg width="{width}" height="{height}">{"".join(lines)}</svg>'
    return f'{drawing}<div class="legend">{" ".join(names)}</div>'


def _told(value: float, unit: str) -> str:
    if unit == "s":
        return (
            f"{value * 1000:.0f} ms"
            if value < 1
            else f"{value:.3g} s"
            if value < 600
            else f"{value / 60:.0f} min"
        )
    if unit == "bytes":
        return f"{value / 1e6:.0f} MB"
    return f"{value:.3g}" + ("/s" if unit == "ops" else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
