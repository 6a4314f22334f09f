"""The page docs/benchmarks/index.md, made from results alone; plots.py draws its pictures."""

from __future__ import annotations

import json
from pathlib import Path

import averages
import evaluation
import fits
import growth
import levels
import memory
import plots
import startup
from bars import Bar, bar_table, table
from libraries import LIBRARIES

TITLES = {
    "evaluation": (
        "One evaluation",
        "NLML and all its gradients, exact, float64, SE-ARD, 3 inputs, one thread. Milliseconds; in parentheses the ratio to potrf + potri of the "
        "same size, measured in the same process beside every evaluation, and the peer's time over ours. libKriging MLP's likelihood gives gradients of the "
        "length-scales only. BoTorch evaluates GPyTorch's model.",
    ),
    "fits": (
        "One fit",
        "The same starts for every library, its own stopping rule (at most 500 iterations where it can be told), one thread. The NLML per row is "
        "computed from each library's final parameters by one NumPy formula. libKriging MLP draws its own start, only one, and has no noise term: its likelihood is another one.",
    ),
    "averages": ("What averaging costs", "Default settings of `ManifoldGPRegressor`, against `GPRegressor(restarts=3)`."),
    "levels": (
        "Levels of large exact fits",
        "Exact fits with 3 restarts, one thread: with levels (the default), and with `levels=False`, every start on all rows. To quality: until the exact NLML of all "
        "rows is within 0.01 nats a row of what all starts on all rows end with.",
    ),
    "startup": ("Imports", "Fresh interpreters in turns, default threads."),
    "growth": (
        "How cost grows",
        "One evaluation of ours, t = c sizeᵖ, p fitted by least squares on logarithms. For members the time is that of the whole batch.",
    ),
    "memory": (
        "Memory",
        "Peak resident memory in MB of one short fit (one start, 3 iterations) of a plain GP in a fresh process; in parentheses what it added to the imports. "
        "For libKriging, whose fits cannot be cut short, one evaluation with gradient.",
    ),
    "prediction": ("Prediction", "Printed by `benchmarks/prediction.py`."),
}
BUSY_BEFORE, BUSY_DURING = 0.7, 2.5
"""Load averages that other work must have caused: the benchmark itself keeps one core busy, two with default threads."""

MODULES = {
    "evaluation": evaluation,
    "fits": fits,
    "averages": averages,
    "levels": levels,
    "startup": startup,
    "growth": growth,
    "memory": memory,
}


def write(out: Path, results: dict[str, dict], quick: bool) -> None:
    """index.md, one PNG a plot, and results.json."""
    out.mkdir(parents=True, exist_ok=True)
    drawn = plots.draw(out, results)
    (out / "results.json").write_text(json.dumps(_rounded(results), indent=1) + "\n")
    (out / "index.md").write_text(page(results, drawn, quick))


def page(results: dict[str, dict], drawn: dict[str, list[tuple[str, str]]], quick: bool) -> str:
    """The whole page; drawn: section to (file, caption) of its plots."""
    parts = ["# Benchmarks\n", circumstances(results, quick), "## Bars\n", bars_of(results), "## Libraries\n", libraries(results)]
    for name in results:
        pictures = "".join(f"\n![{caption}]({file})\n" for file, caption in drawn.get(name, []))
        parts.append(section(name, results[name]) + pictures)
    return "\n".join(parts)


def section(name: str, measured: dict) -> str:
    """One section with its heading, its numbers and what could not be measured."""
    title, text = TITLES[name]
    result = measured["result"]
    if name == "prediction":
        body = result.get("printed", result.get("reason", ""))
        body = body.replace("\n# ", "\n### ").replace("\n## ", "\n### ")
    else:
        body = MODULES[name].markdown(result)
    reasons = result.get("reasons", {})
    missing = "".join(f"\n- {what}: {reason}" for what, reason in reasons.items())
    return f"## {title}\n\n{text}\n\n{body}" + (f"\nNot measured:\n{missing}\n" if missing else "")


def circumstances(results: dict[str, dict], quick: bool) -> str:
    first = next(iter(results.values()))
    commits = sorted({r["commit"] for r in results.values()})
    loads = [r["load"] for r in results.values()]
    minutes = sum(r["took"] for r in results.values()) / 60
    text = (
        f"Made by `make bench` on {first['date']}, commit {', '.join(commits)}: {first['processor']}, {first['cores']} cores, Python {first['python']}; "
        f"{minutes:.0f} minutes; load average {min(loads):.1f} to {max(loads):.1f} at the beginning of the sections. "
        "One library a process, threads capped, libraries in turns; ratios are medians of ratios.\n"
    )
    if loads[0] > BUSY_BEFORE or max(loads) > BUSY_DURING:
        text += "\n**The machine was busy with other work: the numbers are a trial.**\n"
    return text + ("\n**Quick setting: small sizes, few turns; the numbers carry no weight.**\n" if quick else "")


def bars_of(results: dict[str, dict]) -> str:
    """The table of all bars."""
    bars: list[Bar] = []
    for name, measured in results.items():
        module = MODULES.get(name)
        if module is not None and hasattr(module, "bars"):
            bars += module.bars(measured["result"])
    return bar_table(bars)


def libraries(results: dict[str, dict]) -> str:
    versions, reasons = {}, {}
    for measured in results.values():
        versions.update(measured["result"].get("versions", {}))
        reasons.update(measured["result"].get("reasons", {}))
    rows = [[name, versions.get(name, reasons.get(name, "not installed")), library.how] for name, library in LIBRARIES.items()]
    errors = [c for c in results["evaluation"]["result"]["cells"] if not c["library"].startswith("libKriging")]
    largest = max((abs(c["nlml_error"]) for c in errors), default=float("nan"))
    check = f"\nAt the point where evaluations are timed, all NLMLs agree with NumPy's to {largest:.1g} nats (libKriging profiles its variance out).\n"
    return table(["library", "version", "how"], rows) + check


def _rounded(value):
    """Numbers with 6 significant digits, so that the raw file stays small."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return [_rounded(v) for v in value] if isinstance(value, (list, tuple)) else value
