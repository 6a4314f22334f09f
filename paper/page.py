"""The report of a run: a page to look at, and everything on it as files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from html import escape
from pathlib import Path

from matplotlib.figure import Figure

from manifoldgp.data import write_whole
from manifoldgp.inspection import html_page
from paper import figures
from paper.charts import figure_bytes, figure_html
from paper.checks import Check, claims_as_markdown
from paper.experiment import Experiment
from paper.outcome import Outcome, headline
from paper.page_parts import checks_html, minus, page_data, table_html
from paper.tables import tables_as_csv, tables_as_data, tables_as_markdown

TITLE = "Manifold Gaussian Processes for Regression, reproduced"

FILES = ("index.html", "tables.md", "tables.csv", "tables.json", "headline.md", "claims.md", "run.json")
"""What is written into the folder of the report, beside its figures."""

_LEAD = (
    "Every experiment of <i>Manifold Gaussian Processes for Regression</i> (R. Calandra, J. Peters, C. E. Rasmussen, M. P. Deisenroth, IJCNN 2016), run again: "
    "the paper's tables with our numbers beside them, its figures drawn anew, and beside its methods auto-encoders, pre-training and kernel search, "
    "which it only names, and two averages of many models that it did not have. "
    "NLML: negative log marginal likelihood a training point. NLPP: negative log predictive density a test point. Lower is better everywhere."
)

_HERO = (
    "<b>In one picture, and not in the paper.</b> A step with a gap in the training data (grey). The paper's single model decides where the step is and is sure of it; one or two test points on "
    "the wrong side ruin its score. Averages over many such models know that they do not know."
)


def write_reproduction(outcome: Outcome, folder: Path) -> Path:
    """Write the page, figures (PNG and PDF), tables (Markdown, CSV, JSON) and settings into ``folder``; returns the page's path."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    sections = [("summary", "Summary", _summary(outcome))]
    for experiment in outcome.plan.experiments:
        html = _experiment(outcome, experiment)
        for name, figure, caption in _pictures(outcome, experiment):
            for kind in ("png", "pdf"):
                write_whole(folder / "figures" / f"{name}.{kind}", figure_bytes(figure, kind))
            if caption:
                html += figure_html(figure, name, caption)
        sections.append((experiment.key, experiment.title, html))
    sections.append(("settings", "Settings", _settings(outcome)))
    write_whole(folder / "tables.md", tables_as_markdown(outcome.tables))
    write_whole(folder / "tables.csv", tables_as_csv(outcome.tables))
    write_whole(folder / "tables.json", json.dumps(tables_as_data(outcome.tables), indent=1))
    write_whole(folder / "headline.md", headline(outcome))
    write_whole(folder / "claims.md", claims_as_markdown(outcome.checks))
    write_whole(folder / "run.json", json.dumps(_run(outcome), indent=1))
    path = folder / "index.html"
    script = Path(__file__).with_name("experiments.js").read_text(encoding="utf-8")
    write_whole(path, html_page(TITLE, _head(outcome), sections, page_data(outcome), scripts=[script]))
    return path


def _head(outcome: Outcome) -> str:
    bars, claims = _of_kind(outcome, "bar"), _of_kind(outcome, "claim")
    facts = {
        "setting": "quick" if outcome.plan.quick else "full",
        "bars reached": f"{sum(c.held is True for c in bars)} of {len(bars)}",
        "paper's claims that hold here": f"{sum(c.held is True for c in claims)} of {len(claims)}",
        "models fitted": str(len(outcome.results)),
        "time to fit them all": _duration(sum(r.seconds for r in outcome.results)),
    }
    cards = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    return f'<h1>{escape(TITLE)}</h1><p class="lead">{_LEAD}</p><dl class="facts">{cards}</dl>'


def _summary(outcome: Outcome) -> str:
    quick = (
        " <b>This is the quick setting</b>, with few draws of the data: bars are meant for the median over 20, which <code>make paper</code> runs."
        if outcome.plan.quick
        else ""
    )
    failures = "".join(
        f"<li>{escape(f.config.experiment)}, {escape(f.config.method)}, seed {f.config.seed}: {escape(f.message)}</li>"
        for f in outcome.failures
    )
    hero = _hero(outcome) if outcome.of("step", "mgp-sigmoid") else ""
    return (
        f'{hero}<h2>What holds</h2><p class="soft">Medians over the seeds, each another draw of the data and of the starts.{quick}</p>'
        f"<h3>The bars of this project</h3>{checks_html(_of_kind(outcome, 'bar'))}"
        f"<h3>The claims of the paper</h3>{checks_html(_of_kind(outcome, 'claim'))}"
        + (f"<h3>What failed</h3><ul>{failures}</ul>" if failures else "")
    )


def _hero(outcome: Outcome) -> str:
    seed = figures.worst_in_gap(outcome)
    return figure_html(
        figures.step_gap(outcome, seed), "step-gap", f"{_HERO} Seed {seed}, where the mGP errs most inside the gap."
    )


def _experiment(outcome: Outcome, experiment: Experiment) -> str:
    html = f'<h2>{escape(experiment.title)} <span class="soft">{escape(experiment.table)}</span></h2><p class="note">{minus(escape(experiment.note))}</p>'
    if experiment.caution:
        html += f'<p class="caution">{escape(experiment.caution)}</p>'
    html += table_html(outcome.table(experiment.key))
    html += '<p class="soft">Ours: the median over seeds, and below it the worst seed. Shaded rows are averages of many models, which have no NLML. A click on a column sorts by it.</p>'
    if experiment.key != "bumps" and outcome.of(experiment.key):
        html += f'<h3>Predictions</h3><div class="explorer" id="explorer-{experiment.key}"></div>'
    return html + f'<h3>Every seed</h3><div class="strip" id="strip-{experiment.key}"></div>'


def _pictures(outcome: Outcome, experiment: Experiment) -> Iterator[tuple[str, Figure, str]]:
    """(name, figure, caption) of an experiment's figures; without a caption a figure is a file only, the page has it to explore."""
    key = experiment.key
    ranked = outcome.ranked_seeds(experiment)
    if outcome.of(key):
        yield f"{key}-scores", figures.score_strips(outcome, key), ""
    if not ranked:
        return
    typical = ranked[(len(ranked) - 1) // 2]
    match key:
        case "step":
            yield (
                "step",
                figures.step_models(outcome, typical),
                f"<b>The paper's Figure 2.</b> (a) Three models on the step, (b) the features that the mGP learned, as functions of x: the jump is in the features, "
                f"so that the GP on top of them need not jump. Seed {typical}, the median of the mGP's test NLPP.",
            )
            yield "step-gap", figures.step_gap(outcome, figures.worst_in_gap(outcome)), ""  # the page begins with it
        case "bumps":
            yield (
                "bumps",
                figures.bumps_maps(outcome, typical),
                f"<b>The paper's Figure 3.</b> Top: the function, and the widest feature of either network in units of the kernel's length-scales. Middle: their spectra along x₁, "
                f"over all features. Bottom: the function over the features; the kernel sees these distances. Seed {typical}.",
            )
            yield (
                "bumps-errors",
                figures.bumps_errors(outcome, typical),
                f"<b>Not in the paper:</b> where the errors are, on the 2500 test points. Seed {typical}.",
            )
        case "walker" | "icub" | "recording":
            yield (
                key,
                figures.walk_predictions(outcome, key, typical),
                f"<b>The paper's Figure 5,</b> on these data: predictive mean and 95 % bounds on the test walk"
                f"{', with the stop of the knee at 185 degrees' if key == 'walker' else ''}. Seed {typical}.",
            )
            yield (
                f"{key}-features",
                figures.walk_features(outcome, key, typical),
                "<b>The paper's Figure 6,</b> on these data: the walk in the two widest directions of the mGP's feature space, in units of the kernel's length-scales, coloured by the "
                f"phase of the stride. Points jump where a contact switches, and where the network has learned single training rows by heart. Seed {typical}.",
            )


def _run(outcome: Outcome) -> dict:
    """Settings, versions, verdicts and failures, for machines."""
    return {
        "setting": "quick" if outcome.plan.quick else "full",
        "finished": outcome.finished,
        "seconds_of_this_run": round(outcome.seconds, 1),
        "seconds_of_all_fits": round(sum(r.seconds for r in outcome.results), 1),
        "versions": outcome.versions,
        "machine": outcome.machine,
        "remarks": list(outcome.plan.remarks),
        "checks": [asdict(check) for check in outcome.checks],
        "failures": [asdict(failure) for failure in outcome.failures],
        "configs": [asdict(config) for config in outcome.plan.configs],
    }


def _of_kind(outcome: Outcome, kind: str) -> list[Check]:
    return [check for check in outcome.checks if check.kind == kind]


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


# ---- what was run, on what, with which versions: the last section of the page

_FILES = (
    ("tables.md, tables.csv, tables.json", "the tables"),
    ("figures/", "every figure as PNG and PDF"),
    ("results/", "one JSON file for each experiment, method and seed: scores, settings, and the curves that figures show"),
    ("run.json", "settings, versions, seeds, verdicts"),
    ("headline.md", "the headline rows, for a README"),
    ("claims.md", "the paper's claims and whether they hold, for docs/claims.md"),
)


def _settings(outcome: Outcome) -> str:
    """Seeds and restarts of every experiment, versions, machine, time, and the estimators' settings in words."""
    rows = []
    for experiment in outcome.plan.experiments:
        results = outcome.of(experiment.key)
        seeds = sorted({c.seed for c in outcome.plan.configs if c.experiment == experiment.key})
        data = experiment.dataset(next(c for c in outcome.plan.configs if c.experiment == experiment.key))
        rows.append(
            f'<tr><th scope="row">{escape(experiment.title)}</th><td>{len(data.y_train)} / {len(data.y_test)}</td><td>{data.X_train.shape[1]}</td>'
            f"<td>{_span(seeds)}</td><td>{next(c.restarts for c in outcome.plan.configs if c.experiment == experiment.key)}</td>"
            f"<td>{sum(r.seconds for r in results):.0f}</td></tr>"
        )
    heads = ("Experiment", "rows train / test", "inputs", "seeds", "restarts", "seconds to fit all")
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    versions = ", ".join(f"{escape(name)} {escape(version)}" for name, version in outcome.versions.items())
    remarks = "".join(f"<p>{escape(remark)}</p>" for remark in outcome.plan.remarks)
    files = "".join(f"<li><code>{escape(name)}</code>: {escape(what)}</li>" for name, what in _FILES)
    return (
        f'<h2>Settings, versions, seeds, time</h2><div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        f"{remarks}<p>Finished {escape(outcome.finished)}, on {escape(outcome.machine)}; {outcome.seconds:.0f} s for what this run had to add. "
        "Each fit ran in a process of its own with one thread. The best optimum depends on rounding: numbers repeat for the same seed, "
        f"versions and processor.</p><p>{versions}.</p>{_estimators(outcome)}<h3>Files beside this page</h3><ul>{files}</ul>"
    )


def _estimators(outcome: Outcome) -> str:
    """The estimator of each method, as of its first seed."""
    pieces = []
    for experiment in outcome.plan.experiments:
        lines = []
        for method in experiment.methods:
            results = outcome.of(experiment.key, method.key)
            if results:
                lines.append(f"{method.label}: {results[0].estimator}")
        pieces.append(
            f"<details><summary>Estimators: {escape(experiment.title)}</summary><pre>{escape(chr(10).join(lines))}</pre></details>"
        )
    return "".join(pieces)


def _span(seeds: list[int]) -> str:
    return str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
