"""The pictures of the benchmark page: time against N, memory against N, time to quality, growth; small PNGs."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image

from evaluation import NET, PLAIN
from libraries import LIBRARIES, OURS

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import NullFormatter

COLOURS = dict(
    zip(LIBRARIES, ("#c1272d", "#1f77b4", "#17becf", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f"), strict=True)
)
MARKERS = dict(zip(LIBRARIES, "osDv^<>P", strict=True))


def draw(out: Path, results: dict[str, dict]) -> dict[str, list[tuple[str, str]]]:
    """Draw into ``out``; section to its files and captions."""
    data = {name: measured["result"] for name, measured in results.items()}
    return {
        "evaluation": [(_time_against_rows(out, data["evaluation"]), "Time of one evaluation against N")],
        "fits": [(_quality(out, data["fits"]), "Best NLML so far against time")],
        "memory": [(_memory(out, data["memory"]), "Peak memory against N")],
        "growth": [(_growth(out, data["growth"]), "Cost of one evaluation against N, D, Q and members")],
    }


def _line(axis, name: str, x, y, **style) -> None:
    width = 2.2 if name == OURS else 1.2
    axis.plot(x, y, color=COLOURS[name], marker=MARKERS[name], markersize=4, linewidth=width, label=name, **style)


def _name_sizes(axis, sizes) -> None:
    """The measured sizes as ticks of a logarithmic axis, and nothing between them."""
    axis.set_xticks(sizes, [str(size) for size in sizes])
    axis.xaxis.set_minor_formatter(NullFormatter())


def _time_against_rows(out: Path, result: dict) -> str:
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.4), sharey=True, layout="constrained")
    for axis, model in zip(axes, (PLAIN, NET), strict=True):
        cells = [c for c in result["cells"] if c["model"] == model]
        for name in dict.fromkeys(c["library"] for c in cells):
            mine = [c for c in cells if c["library"] == name]
            _line(axis, name, [c["rows"] for c in mine], [c["ms"] for c in mine])
            if name == OURS:
                axis.plot([c["rows"] for c in mine], [c["floor_ms"] for c in mine], "k--", linewidth=1, label="potrf + potri")
        axis.set(xscale="log", yscale="log", xlabel="rows N", title=f"NLML + gradients, {model}")
        axis.legend(fontsize=7)
        _name_sizes(axis, sorted({c["rows"] for c in result["cells"]}))
    axes[0].set_ylabel("milliseconds")
    return _save(figure, out, "evaluation.png")


def _quality(out: Path, result: dict) -> str:
    tasks = list(dict.fromkeys(c["task"] for c in result["cells"]))
    figure, axes = plt.subplots(1, len(tasks), figsize=(2.9 * len(tasks) + 0.4, 3.2), layout="constrained", squeeze=False)
    for axis, task in zip(axes[0], tasks, strict=True):
        cells = [c for c in result["cells"] if c["task"] == task and c["nlml"] is not None]
        best = min(c["nlml"] for c in cells)
        for cell in cells:
            points = np.array([*cell["trace"], [cell["seconds"], cell["trace"][-1][1]]])
            style = {"markevery": [len(points) - 1], "drawstyle": "steps-post"}
            _line(axis, cell["library"], points[:, 0], np.maximum(points[:, 1] - best, 1e-6), **style)
        axis.set(xscale="log", yscale="log", xlabel="seconds", ylim=(5e-7, None))
        axis.set_title(task.replace("], ", "],\n"), fontsize=9)
    axes[0, 0].set_ylabel("NLML per row above the best")
    axes[0, 0].legend(fontsize=6, loc="lower left")
    return _save(figure, out, "quality.png")


def _memory(out: Path, result: dict) -> str:
    figure, axis = plt.subplots(figsize=(4.8, 3.2), layout="constrained")
    for name in dict.fromkeys(c["library"] for c in result["cells"]):
        mine = [c for c in result["cells"] if c["library"] == name]
        _line(axis, name, [c["rows"] for c in mine], [max(c["above_mb"], 0.1) for c in mine])
    rows = np.array(sorted({c["rows"] for c in result["cells"]}))
    axis.plot(rows, 8 * rows**2 / 1e6, "k--", linewidth=1, label="one N × N matrix")
    axis.set(xscale="log", yscale="log", xlabel="rows N", ylabel="MB above the imports", title="Peak memory of one fit, plain GP")
    axis.legend(fontsize=7)
    _name_sizes(axis, rows)
    return _save(figure, out, "memory.png")


def _growth(out: Path, result: dict) -> str:
    figure, axes = plt.subplots(1, len(result), figsize=(10, 2.7), layout="constrained")
    for axis, (name, sweep) in zip(axes, result.items(), strict=True):
        _line(axis, OURS, sweep["sizes"], sweep["ms"])
        limits = 10 ** np.floor(np.log10(min(sweep["ms"]))), 10 ** np.ceil(np.log10(1.01 * max(sweep["ms"])))
        axis.set(xscale="log", yscale="log", xlabel=name.split(" (")[0], ylim=limits)
        _name_sizes(axis, sweep["sizes"])
        axis.tick_params(axis="x", labelsize=7)
        axis.set_title(f"exponent {sweep['exponent']:.2f}, upper half {sweep['upper']:.2f}", fontsize=8)
    axes[0].set_ylabel("milliseconds")
    return _save(figure, out, "growth.png")


def _save(figure, out: Path, name: str) -> str:
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=90)
    plt.close(figure)
    with Image.open(drawn) as picture:  # 64 colours are enough for lines, and a third of the bytes
        picture.convert("RGB").quantize(64).save(out / name, optimize=True)
    return name
