"""Results on paper: one JSON file that keeps every sample, a markdown table and a plot made from it.

A row that is measured again takes the place of the old one and carries its own date and commit, so single rows can be
repeated (`--only`) without an hour for the rest; the table says when a row is of another commit.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kafka_peer import numbers
from measure import FLOOR, KAFKA, KFAKE, LOOP, OURS, SIDES, Goal, Row, Samples, figure, spread, verdict

ROOT = Path(__file__).resolve().parent.parent


def commit() -> str:
    """The checkout's commit, marked when files differ from it, but those that an earlier run has written."""
    command = ["git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/benchmarks", ":!README.md"]
    name, changed = (
        subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
        for words in (["git", "describe", "--always"], command)
    )
    return (name or "unknown") + ("-dirty" if changed else "")


def machine(directory: Path) -> str:
    """The machine in one line: processor, memory, kernel, file system of the data, versions."""
    model = "processor unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = " ".join(line.split(":", 1)[1].split())
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} × {model}, {memory:.0f} GiB, {platform.system()} {platform.release()}, "
        f"{_file_system(directory)}, Python {platform.python_version()}, {_java_version()}"
    )


def _file_system(directory: Path) -> str:
    best, kind = "", "file system unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, name, *_ = line.split()
        if len(point) > len(best) and (directory.resolve().is_relative_to(point)):
            best, kind = point, name
    return kind


def _java_version() -> str:
    try:
        done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return "no Java"
    words = done.stderr.split()
    return f"Java {words[2].strip(chr(34))}" if len(words) > 2 else "Java"


def load(path: Path) -> tuple[str, dict[str, Samples]]:
    """What an earlier run left: the machine line and the samples by row name."""
    if not path.exists():
        return "", {}
    stored: dict[str, Any] = json.loads(path.read_text())
    return stored["machine"], {name: Samples(**samples) for name, samples in stored["rows"].items()}


def store(path: Path, machine_line: str, samples: dict[str, Samples]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {name: asdict(one) for name, one in samples.items()}
    path.write_text(json.dumps({"machine": machine_line, "rows": rows}, indent=1, ensure_ascii=False) + "\n")


def write(
    directory: Path, name: str, machine_line: str, samples: dict[str, Samples], rows: Sequence[Row]
) -> list[Path]:
    """NAME.json, NAME.md and NAME.svg (when matplotlib is installed)."""
    data, page, plot = (directory / f"{name}{suffix}" for suffix in (".json", ".md", ".svg"))
    store(data, machine_line, samples)
    measured = [row for row in rows if row.name in samples]
    drawn = draw(plot, measured, samples)
    page.write_text(markdown(name, machine_line, samples, measured, plot.name if drawn else None))
    return [data, page, *([plot] if drawn else [])]


# The table.


def table(rows: Iterable[Row], samples: dict[str, Samples]) -> list[list[str]]:
    """Cells: what, ours, Kafka's, ratio, goal, verdict."""
    lines = []
    for row in rows:
        one = samples[row.name]
        medians = one.medians()
        goals = "; ".join(_goal(goal, medians) for goal in row.goals) or "–"
        cells = [f"{row.title}, {row.unit}", spread(one.values.get(OURS, [])), spread(one.values.get(KAFKA, []))]
        cells += [*(_ratio(medians, other) for other in (KAFKA, FLOOR, LOOP, KFAKE)), goals, verdict(row, one)]
        lines.append(cells)
    return lines


def _ratio(medians: dict[str, float], other: str) -> str:
    if OURS not in medians or not medians.get(other):
        return "–"
    return f"{figure(medians[OURS] / medians[other])} ×"


def _goal(goal: Goal, medians: dict[str, float]) -> str:
    bound = goal.bound(medians)
    return str(goal) if goal.against is None or bound is None else f"{goal} = {figure(bound)}"


def headings(samples: Iterable[Samples]) -> list[str]:
    """The table's head, which names the releases of Apache Kafka that were measured."""
    releases = sorted({one.kafka for one in samples}, key=numbers)
    return [
        "what",
        "tidelog",
        f"Apache Kafka {' and '.join(releases)}",
        "ours ÷ Kafka",
        "ours ÷ C",
        "ours ÷ C on our loop",
        "ours ÷ kfake",
        "goal",
        "met",
    ]


def markdown(name: str, machine_line: str, samples: dict[str, Samples], rows: Sequence[Row], plot: str | None) -> str:
    commits = sorted({samples[row.name].commit for row in rows})
    dates = sorted({samples[row.name].date for row in rows})
    commands = sorted({samples[row.name].command for row in rows})
    head = headings(samples[row.name] for row in rows)
    lines = [
        f"# Benchmarks, {name} run",
        "",
        "Made by the benchmarks themselves; how each row is measured is in [README.md](README.md). Medians, and in",
        "brackets the extremes, of rounds that took both brokers in turn.",
        "",
        f"- date: {' to '.join(sorted({dates[0], dates[-1]})) if dates else '–'}",
        f"- commit: {', '.join(commits)}",
        f"- machine: {machine_line}",
        *(f"- command: `{command}`" for command in commands),
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    several, mixed = len(commits) > 1, len({samples[row.name].kafka for row in rows}) > 1
    for row, cells in zip(rows, table(rows, samples), strict=True):
        one = samples[row.name]
        notes = [*([f"commit {one.commit}"] if several else []), *([f"Kafka {one.kafka}"] if mixed else [])]
        cells[0] += f" ({', '.join(notes)})" if notes else ""
        lines.append("| " + " | ".join(cells) + " |")
    for row in rows:
        if samples[row.name].error:
            lines += ["", f"`{row.name}` failed: {samples[row.name].error.splitlines()[0]}"]
    if plot:
        lines += ["", f"![Ours over Kafka's, and the goals]({plot})"]
    return "\n".join([*lines, *_details(rows, samples)]) + "\n"


DETAIL_TITLES = {
    "MB_per_s": "MB/s",
    "requests_per_s": "requests/s",
    "p50_us": "p50 µs",
    "p99_us": "p99 µs",
    "p999_us": "p99.9 µs",
    "p99_alone_us": "p99 alone µs",
    "p99_with_us": "p99 during µs",
    "machine_p99_us": "machine's p99 µs",
    "overlap": "overlap",
    "fdatasync_us": "fdatasync µs",
}


def _details(rows: Sequence[Row], samples: dict[str, Samples]) -> list[str]:
    """Throughput and latency seen by the client in the same rounds."""
    lines: list[str] = []
    for row in rows:
        for side in SIDES:
            taken = samples[row.name].details.get(side, [])
            cells = [_median_of(taken, name) for name in DETAIL_TITLES]
            if any(cell != "–" for cell in cells):
                lines.append("| " + " | ".join([row.name, side, *cells]) + " |")
    if not lines:
        return []
    head = ["row", "side", *DETAIL_TITLES.values()]
    text = "What the client saw in the same rounds (medians; a closed loop but for the catch-up rows):"
    return ["", text, "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head), *lines]


def _median_of(taken: Sequence[dict[str, float]], name: str) -> str:
    values = [one[name] for one in taken if name in one]
    return figure(statistics.median(values)) if values else "–"


def terminal(rows: Sequence[Row], samples: dict[str, Samples]) -> str:
    """The same table for a terminal."""
    head = headings(samples[row.name] for row in rows)
    cells = [head, *table(rows, samples)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )


# The plot.


def draw(path: Path, rows: Sequence[Row], samples: dict[str, Samples]) -> bool:
    """A bar for each row: how many times better than Kafka ours is, on a logarithmic scale, with the goal as a mark."""
    try:
        import matplotlib as mpl

        mpl.use("svg")
        from matplotlib import pyplot
    except ImportError:
        return False
    bars = []
    for row in rows:
        medians = samples[row.name].medians()
        if not medians.get(OURS) or not medians.get(KAFKA):
            continue
        more_is_better = any(goal.at_least for goal in row.goals)
        better = medians[OURS] / medians[KAFKA] if more_is_better else medians[KAFKA] / medians[OURS]
        bars.append((row, better, _goal_as_factor(row, medians, more_is_better), verdict(row, samples[row.name])))
    if not bars:
        return False
    colours = {"PASS": "#2a7f62", "short": "#c8553d", "–": "#6b7a8f", "failed": "#999999"}
    mpl.rcParams["svg.hashsalt"] = "tidelog"  # the same figures make the same file
    figure_, axes = pyplot.subplots(figsize=(9, 1.2 + 0.36 * len(bars)))
    places = range(len(bars))
    widths = [bar[1] - 1 for bar in bars]  # from 1, "as good as Kafka", to either side
    axes.barh(places, widths, left=1, color=[colours[bar[3]] for bar in bars], height=0.62)
    for place, (_, better, goal, _) in zip(places, bars, strict=True):
        axes.text(max(better, goal or 0, 1), place, f"  {figure(better)} ×", va="center", fontsize=8)
        if goal is not None:
            axes.plot([goal, goal], [place - 0.42, place + 0.42], color="black", linewidth=1.6)
    axes.set_yticks(places, [bar[0].title for bar in bars], fontsize=8)
    axes.set_xscale("log")
    axes.axvline(1, color="#444444", linewidth=0.8)
    seen = [1.0, *(bar[1] for bar in bars), *(bar[2] for bar in bars if bar[2])]
    axes.set_xlim(left=min(seen) * 0.8, right=max(seen) * 2)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.xaxis.set_major_formatter(lambda value, _: figure(value))
    axes.xaxis.set_minor_formatter("")
    kafka = headings(samples[row.name] for row in rows)[2]
    label = f"times better than {kafka} (log scale); black mark: the goal; green: met, red: short"
    axes.set_xlabel(label, fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure_.tight_layout()
    figure_.savefig(path, metadata={"Date": None})
    pyplot.close(figure_)
    return True


def _goal_as_factor(row: Row, medians: dict[str, float], more_is_better: bool) -> float | None:
    """The row's goal on the plot's scale: how many times better than Kafka it asks to be."""
    bounds = [bound for goal in row.goals if goal.against in (None, KAFKA) and (bound := goal.bound(medians))]
    if not bounds:
        return None
    return bounds[0] / medians[KAFKA] if more_is_better else medians[KAFKA] / bounds[0]
