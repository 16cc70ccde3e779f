"""What a run of the benchmarks leaves: a table on the terminal, a JSON file, a plot."""

import dataclasses
import datetime
import json
import math
import pathlib
import platform
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.floors import Machine
from benchmarks.harness import Timing, ratio
from benchmarks.questions import Case

RESULTS = pathlib.Path(__file__).parent / "results"


def describe(
    case: Case, timings: dict[str, Timing], machine: Machine | None, wrong: dict[str, float]
) -> dict[str, Any]:
    """Turn one measured case into plain data: what goes into the JSON file and what the table and plot read."""
    seconds = {name: timing.median for name, timing in timings.items()}
    (first, *_) = case.candidates
    floor = machine.seconds(case.floor) if case.floor and machine else None
    rows = {}
    for name, timing in timings.items():
        low, high = timing.spread
        rows[name] = {
            "seconds": _finite(seconds[name]),
            "quartiles": [_finite(low), _finite(high)],
            "rounds": len(timing.samples),
            "first_call": _finite(timing.first_call),
            "ratio": _finite(ratio(timing, timings[first])),
            "error": timing.error,
        }
        if name in wrong:
            rows[name]["differs_by"] = _finite(wrong[name])
    entry = {"title": case.title, "candidates": rows}
    entry["floor_seconds"] = floor
    entry["over_floor"] = _finite(seconds[first] / floor) if floor else None
    entry["targets"] = [
        {
            "peer": peer,
            "ratio": wanted,
            "measured": rows[peer]["ratio"],
            "reached": _reached(rows[peer]["ratio"], wanted),
        }
        for peer, wanted in case.targets.items()
    ]
    return entry


def _reached(measured: float | None, wanted: float) -> bool | None:
    return None if measured is None else measured >= wanted


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def duration(seconds: float | None) -> str:
    """Write seconds for people: three digits and a unit."""
    if seconds is None:
        return "–"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def print_table(name: str, what: str, entries: list[dict[str, Any]], console: Console | None = None) -> None:
    """Print one question: a block of lines per case, one line per candidate."""
    table = Table(title=f"{name}: {what}", title_justify="left", title_style="bold")
    for column, justify in (
        ("case", "left"),
        ("candidate", "left"),
        ("median", "right"),
        ("quartiles", "right"),
        ("ratio", "right"),
        ("aim", "left"),
        ("first call", "right"),
    ):
        table.add_column(column, justify=justify)
    for entry in entries:
        for row, (candidate, values) in enumerate(entry["candidates"].items()):
            title = entry["title"] if row == 0 else ""
            if values["error"]:
                table.add_row(title, candidate, "fails", f"[red]{values['error'].split(':')[0]}[/red]", "", "", "")
                continue
            mark = " [red]wrong[/red]" if "differs_by" in values else ""
            low, high = values["quartiles"]
            times = "1" if row == 0 else f"{values['ratio']:.3g}" if values["ratio"] is not None else "–"
            table.add_row(
                title,
                candidate + mark,
                duration(values["seconds"]),
                f"{duration(low)} … {duration(high)}",
                times,
                _verdict(entry, candidate),
                duration(values["first_call"]),
            )
        if entry["floor_seconds"] is not None:
            times = f"{1 / entry['over_floor']:.2g}" if entry["over_floor"] else ""
            table.add_row("", "[dim]floor[/dim]", duration(entry["floor_seconds"]), "", times, "", "")
        table.add_section()
    (console or Console()).print(table)


def _verdict(entry: dict[str, Any], candidate: str) -> str:
    """Say what ratio was aimed at, and whether it was reached."""
    words = {True: "[green]reached[/green]", False: "[yellow]missed[/yellow]", None: ""}
    aims = [target for target in entry["targets"] if target["peer"] == candidate]
    return ", ".join(f"≥ {aim['ratio']:.3g} {words[aim['reached']]}" for aim in aims)


def environment(machine: Machine | None) -> dict[str, Any]:
    """Return what the figures depend on: date, processor, versions, measured speeds, which ops are native."""
    import keras
    import tensorflow as tf

    import tfjac

    return {
        "date": datetime.date.today().isoformat(),
        "processor": _processor(),
        "intra_op_threads": tf.config.threading.get_intra_op_parallelism_threads() or "default",
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
        "memset_bytes_per_second": machine.memset if machine else None,
        "matmul_flops_per_second": machine.matmul if machine else None,
        "ops": dataclasses.asdict(tfjac.ops_info()),
    }


def _processor() -> str:
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        if models:
            return f"{len(models)} × {models[0]}"
    return platform.processor() or platform.machine()


def save_json(name: str, data: dict[str, Any], folder: pathlib.Path = RESULTS) -> pathlib.Path:
    """Write the results of one question; the file of an earlier run is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False, default=str) + "\n")
    return path


def save_runs(name: str, question: str, runs: list[dict[str, Any]]) -> pathlib.Path:
    """Write the runs of a benchmark of its own, with what machine they are of."""
    return save_json(name, {"question": question, "environment": environment(None), "runs": runs})


def save_plot(name: str, what: str, entries: list[dict[str, Any]], folder: pathlib.Path = RESULTS) -> pathlib.Path:
    """Draw one panel per case: medians as dots, quartiles as bars, the floor as a dashed line.

    The file's metadata have the title as text, so that a test can hold it against what is asked today.
    """
    folder.mkdir(parents=True, exist_ok=True)
    heights = [len(entry["candidates"]) for entry in entries]
    figure, axes = plt.subplots(
        len(entries),
        1,
        figsize=(8.5, 0.9 + 0.36 * sum(heights) + 0.75 * len(entries)),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for axis, entry in zip(axes[:, 0], entries, strict=True):
        _draw_case(axis, entry)
    figure.suptitle(what.rstrip("."), fontsize=11, x=0.01, ha="left")
    path = folder / f"{name}.png"
    figure.savefig(path, dpi=130, metadata={"Title": what})
    plt.close(figure)
    return path


def _draw_case(axis, entry: dict[str, Any]) -> None:
    names = list(entry["candidates"])
    rows = [entry["candidates"][name] for name in names]
    for y, row in enumerate(rows):
        color = "#c2410c" if y == 0 else "#475569"
        if row["seconds"] is None:
            axis.text(0.01, y, "fails", transform=axis.get_yaxis_transform(), va="center", fontsize=8, color="#64748b")
            continue
        axis.plot(row["quartiles"], [y, y], color=color, linewidth=5, alpha=0.45, solid_capstyle="butt")
        axis.plot(row["seconds"], y, "o", color=color, markersize=7)
        label = f"   {duration(row['seconds'])}" + (f"  ({row['ratio']:.3g}×)" if y and row["ratio"] else "")
        axis.text(max(row["seconds"], (row["quartiles"][1] or 0)), y, label, va="center", fontsize=8)
    if entry["floor_seconds"]:
        axis.axvline(entry["floor_seconds"], color="#0f766e", linestyle="--", linewidth=1, label="floor")
        axis.legend(loc="lower right", fontsize=7, frameon=False)
    times = [t for t in [row["seconds"] for row in rows] + [entry["floor_seconds"]] if t]
    axis.set_xscale("log")
    if times:
        axis.set_xlim(min(times) * 0.5, max(times) * 12)
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.grid(axis="x", color="#e2e8f0", linewidth=0.7)
    axis.set_axisbelow(True)
    axis.tick_params(axis="x", labelsize=8)
    axis.set_title(f"{entry['title']} (seconds)", fontsize=9, loc="left")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
