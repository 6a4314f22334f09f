"""What was run, on what, with which versions: the last section of the page."""

from __future__ import annotations

from html import escape

from manifoldgp.experiments import Outcome

_FILES = (
    ("tables.md, tables.csv, tables.json", "the tables"),
    ("figures/", "every figure as PNG and PDF"),
    ("results/", "one JSON file for each experiment, method and seed: scores, settings, and the curves that figures show"),
    ("run.json", "settings, versions, seeds, verdicts"),
    ("headline.md", "the headline rows, for a README"),
)


def settings_html(outcome: Outcome) -> str:
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
