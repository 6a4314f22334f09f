"""The sentences of a model's page, for readers who have never seen a Gaussian process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from manifoldgp import inspection, metrics
from manifoldgp._system.plain_text import argument, counted, digits, explained_share, one_line, percent, unit_of
from manifoldgp.averaging import as_averaging
from manifoldgp.averaging.stacking import PLAIN_GPS
from manifoldgp.averaging.verdict import errors_of
from manifoldgp.chance.differences import named_groups
from manifoldgp.chance.interval_checks import FEWEST_ROWS
from manifoldgp.data.encoding import TableEncoding
from manifoldgp.data.inputs import group_column
from manifoldgp.estimators.early_end import early_end
from manifoldgp.estimators.kernel_choice import KernelChoice
from manifoldgp.inspection.page_tables import about_endings, say
from manifoldgp.inspection.page_view import MOST_SLICES, ModelView, TargetView

READING = (
    "<b>All pictures are alive:</b> point at them to read values. Click one, then turn the wheel to zoom and drag to move it; on a touch screen use two fingers. "
    "A double click or <i>reset</i> shows everything again."
)
GLOSSARY = (
    "<b>Nats a row</b> measure how well whole predictive distributions fit, errors and error bars together: 0.1 nats a row is a visible difference, 1 is a large one. "
    "<b>Plain GP</b>: a Gaussian process on the inputs as they are; <b>mGP</b>: one on learned features. "
    "<b>Held-out rows</b> were kept from the models that predict them."
)
MAP = (
    "<b>The prediction over two inputs at once</b>, the others as in the training row that is nearest to the middle of all; white dots are training rows. "
    "Switch to <i>uncertainty</i> to see where the model is unsure: usually far from the dots."
)
RELEVANCE = (
    "<b>How much the prediction typically changes when one input varies by one standard deviation</b> (slope of the prediction, root mean square over "
    "training rows, times the spread of the input, and at most what other values of it do; of a category what other categories in its place, as often as they occur, do; in units of the target). "
    "A short bar: the model hardly uses this input."
)
SOBOL = (
    "<b>Sobol indices</b>: the share of the variance of the prediction that an input causes alone, and with all interactions that it takes part in. Inputs vary "
    "independently, each evenly over the range of the training rows, a category over its values (for an orthogonal additive kernel: normally, as the kernel has it). ± is the standard error, "
    "of the sampling and of what the model leaves open. Inputs that hang together in the data are varied apart here."
)
SCORES = (
    "Typical error: root mean squared difference between prediction and observation, in units of the target; beside it the errors of always predicting the training mean, "
    "and of a linear model (ridge) of the same inputs. It was not trained on the folds of the held-out rows (–): compare it with what stands in its own row. "
    "<code>mgp compare</code> holds the same rows out of both, and tries more models. "
    "R²: share of the variation of these rows, around their own mean, that is explained, 1 is perfect. NLPP: mean negative log density of what was observed, lower is better. "
    "Held out: rows that the folds of the stack kept from the models that predict them. Left out: each training row is predicted from all the others, with "
    "parameters that have seen it; that flatters the model a little, and much where neighbours are alike, as rows of one run or of one moment are."
)
_WORST = (
    "Look at these first: a typing error, a broken sensor, or a kind of row of which the model has seen too few. "
    "Rows are counted from 1, "
)
STARTS = (
    "<b>Every start of the optimiser, from its first step to its end (dot).</b> Lower is better; many ends at one height mean that the optimum is found "
    "reliably. Grey: starts that do not take part in the prediction. The first steps of poor starts lie above the picture."
)
_GROUPS = {
    "plain GP": "a plain Gaussian process on the inputs as they are",
    "rough GP": "the same with a rougher kernel (Matérn 3/2)",
    "additive GP": "the same as a sum of functions of one to four inputs each",
    "searched GP": "the same with a kernel that a search has found",
    "warm": "models with learned features that began as the plain GP",
    "cold": "models with learned features that began far from it",
    "rough": "models with learned features and the rougher kernel",
    "large": "models with more learned features that began far from the plain GP",
    "deep": "models on the inputs and on a network of several layers that first learnt to predict the target itself",
    "own": "models with the features that were asked for",
    "nested": "models with learned features that contain the plain GP",
}


def title(view: ModelView) -> str:
    return f"A model of {_list([t.name for t in view.targets])}"


def headline(view: ModelView) -> str:
    """The first thing to know about each target, as paragraphs: how large errors are, how large without a model, and whether intervals hold."""
    early = early_end(view.model)
    told = f'<p class="caution">{escape(early)}</p>' if early else ""
    return "".join(f'<p class="lead">{_headline(view, target)}</p>' for target in view.targets[:3]) + told


def _headline(view: ModelView, target: TargetView) -> str:
    found = _first_numbers(view, target)
    unit = _unit(view, target)
    of = f"{escape(target.name)}: typical" if len(view.targets) > 1 else "Typical"
    explained = "" if found.explained is None else f"; R² <b>{explained_share(found.explained).replace('-', '−')}</b>"
    if np.ptp(target.rows.y) == 0.0:
        return f"{escape(target.name)} is {digits(float(target.rows.y[0]))}{escape(unit)} in every training row: there is nothing to learn, and nothing to say about errors."
    kind = _kindness(view, target) + (f", {_unseen(view)}" if view.of_the_fit else "")
    known = bool(kind) and (target.held_out is None or view.of_the_fit > 0)
    intervals = _intervals(target, group_column(view.model), known)
    return (
        f"{of} error <b>{digits(found.rmse, 3)}{escape(unit)}</b>; always predicting the mean <b>{digits(found.baseline, 3)}{escape(unit)}</b>{explained}; "
        f"{intervals}. <span class='soft'>({found.which}{kind})</span>"
    )


def _unseen(view: ModelView) -> str:
    """What the model knows of the test rows."""
    if not view.of_the_fit:
        return "which the model has not seen"
    least = "at least " if view.sampled else ""
    return f"{least}{view.of_the_fit:,} of which the model was fitted to (or to equal ones): errors on new rows are larger"


def _unit(view: ModelView, target: TargetView) -> str:
    """The unit of a target, to be put behind a number: what it is called here, or in the table, tells it."""
    return unit_of(target.name) or inspection.target_unit(view.model, target.output)


def _kindness(view: ModelView, target: TargetView) -> str:
    """Which rows were held out together; or why those that were left out one at a time are no test of new ones."""
    group = group_column(view.model)
    if target.test is None and target.held_out is not None and target.held_out.together is not None:
        whole = named_groups(target.held_out.ordered, None if group is None else one_line(group))
        return f", whole {escape(whole)} at a time"
    if not (target.shown.left_out and target.held_out is None):
        return ""
    if words := _tried_kernels(view, target):
        return words
    if group is not None:
        return f" one at a time, the others of the same {escape(one_line(group))} known: a new one is harder, and not tried here"
    return " one at a time, by parameters that have seen them: new rows can be harder"


def _tried_kernels(view: ModelView, target: TargetView) -> str:
    """How large errors were on the rows that were held out while kernels were tried, if they were."""
    choice: KernelChoice | None = getattr(view.model, "kernel_choice_", None)
    if choice is None or not choice.errors:
        return ""
    whole = "rows" if choice.together is None else choice.together
    error = digits(choice.errors[target.output]["RMSE"], 3) + escape(_unit(view, target))
    return f" one at a time; on held-out {escape(whole)}, where the kernel was chosen, the error was {error}"


@dataclass(frozen=True)
class _FirstNumbers:
    """RMSE of the model and of the mean, R² (None of a constant target), and which rows they are of."""

    rmse: float
    baseline: float
    explained: float | None
    which: str


def _first_numbers(view: ModelView, target: TargetView) -> _FirstNumbers:
    error, which = _typical_error(view, target)
    report = target.held_out
    if which == "held-out rows" and report is not None and report.observed is not None:
        scale = view.model.ensembles_[target.output].scale
        spread = scale * report.observed  # targets are standardised: the training mean is zero
    else:
        spread = target.shown.observed - target.rows.y.mean()
    variance = float(np.var(spread))
    explained = 1.0 - error**2 / variance if variance > 0 else None
    return _FirstNumbers(error, float(np.sqrt(np.mean(spread**2))), explained, which)


def _intervals(target: TargetView, column: str | None, kind: bool) -> str:
    """Whether intervals hold as many rows as they should, as `IntervalCheck.in_words` says it; what is sure in bold."""
    stated = target.calibration.intervals.in_words(None if column is None else one_line(column), kind)
    first, rest = escape(stated.first), escape(stated.rest)
    return f"<b>{first}</b>{rest}" if stated.sure else first + rest


def residuals(view: ModelView) -> str:
    some = " At most 600 rows are drawn." if view.targets[0].shown.total > 600 else ""
    return (
        "<b>What is left when the prediction is taken away.</b> Dots should lie around the dashed line without a pattern, whatever they are drawn against. A slope or a bend against an input: the "
        f"model misses something there. A drift with the order of rows: something changed over time that is not among the inputs. {_shown_rows(view)}{some}"
    )


def _shown_rows(view: ModelView) -> str:
    if view.targets[0].test is not None:
        return "Test rows, unknown to the model."
    return f"{_training_rows(view)}, {_from_all_others(view)}."


def _from_all_others(view: ModelView) -> str:
    """How training rows are predicted that are left out one at a time, and what that does not tell of new rows."""
    report, group = view.targets[0].held_out, group_column(view.model)
    beside = ""
    if report is not None and report.ordered:
        beside = ", those just before and after it among them"
    elif group is not None or (report is not None and report.together is not None):
        beside = f", those of the same {'group' if group is None else escape(one_line(group))} among them"
    easier = "which is easier than the held-out rows were whose typical error stands above"
    harder = easier if report is not None else "and new rows are harder" if beside else ""
    return f"each predicted from all the others{beside}{', ' if harder else ''}{harder}"


def lead(view: ModelView) -> str:
    given = _given_inputs(view)
    names = given if len(given) <= 8 else [*given[:7], f"{len(given) - 7} more"]
    return (
        f"This model predicts {_strong([t.name for t in view.targets])} from {_strong(names)}. It was trained on {counted(view.trained_rows, 'row')}. For every new row it "
        "gives an expected value and how sure it is of it. This page shows what it predicts, how far that can be trusted, and how to use it."
    )


def _given_inputs(view: ModelView) -> list[str]:
    """The columns of the table that are inputs; the model may see several numbers for one of them."""
    encoding = getattr(view.model, "table_encoding_", None)
    return list(view.inputs) if encoding is None else [one_line(column.name) for column in encoding.columns]


def facts(view: ModelView) -> dict[str, str]:
    found = {"training rows": f"{view.trained_rows:,}", "inputs": str(len(_given_inputs(view)))}
    for target in view.targets[:2]:
        if np.ptp(target.rows.y) == 0.0:
            continue  # as the headline says, there is nothing to say about errors
        of = f" of {target.name}" if len(view.targets) > 1 else ""
        error, which = _typical_error(view, target)
        found[f"typical error{of} ({which})"] = escape(say(error) + _unit(view, target))
        if len(target.calibration.pit) < FEWEST_ROWS:
            continue
        found[f"95 % intervals{of} hold ({_source(target)})"] = percent(target.calibration.intervals.share)
    return found


def prediction(view: ModelView) -> str:
    known = view.model.ensembles_[0].blocks[0].data.known_noise is not None
    without = " (without the noise that was given for single rows at training: of new points it is not known)" if known else ""
    without = " at exact inputs (those of the training rows are noisy)" if hasattr(view.model, "input_noise_") else without
    if len(view.inputs) == 1:
        interval = f"shaded, the interval that should hold 95 % of new observations{without}"
        rows = "dots are training rows" + ("" if view.targets[0].test is None else f", red ones test rows, {_unseen(view)}")
        return f"<b>Prediction (line) and how sure it is</b> ({interval}); {rows}.{_thinned(view)}"
    shown = min(len(view.columns), MOST_SLICES)
    words = any(column.words(view.X[:1]) is not None for column in view.strongest[:shown])
    of_words = " Of a category: the mean prediction and the mean interval of the rows of each." if words else ""
    which = "" if shown == len(view.columns) else f" The {counted(shown, 'input')} that matter most can be chosen."
    return (
        f"<b>What happens to the prediction when one input varies</b> and the others go along as they do in the data (accumulated local effects: rows are moved to values nearby, "
        f"never far from where rows are): line, mean; shaded, how far the 95 % interval of a row near there reaches to either side of its own prediction, on average{without}. "
        f"Rows have predictions of their own, by their other inputs, so that more of them than that lie outside. "
        f"Ticks at the bottom show where training rows are. The vertical scale is the same for all inputs.{of_words}{which}"
    )


def observed(view: ModelView) -> str:
    target = view.targets[0]
    how = (
        f"Test rows, {_unseen(view)}."
        if target.test is not None
        else f"{_training_rows(view)} (leave-one-out, not the fit to known values): {_from_all_others(view)}."
    )
    some = target.shown.total > 600
    note = f" At most 600 of {counted(target.shown.total, 'row')} are drawn." if some else ""
    return f"<b>Predicted against observed.</b> On the dashed diagonal a prediction is exact; bars are 95 % intervals, and most should cross the diagonal. {how}{note}"


def coverage(view: ModelView) -> str:
    return (
        f"<b>Are the intervals right?</b> An interval that should hold half of the rows should do so, and likewise for every other share: the blue line should follow the "
        f"diagonal. Below it the model is too sure, above it too cautious. {_chance(view)} {_calibration_rows(view)}"
    )


def _chance(view: ModelView) -> str:
    """What the grey bands of the calibration are, which count rows."""
    apart = view.targets[0].calibration.together is None
    return f"Grey: what chance allows{'' if apart else ', if rows of one group err no more alike than others'}."


def pit(view: ModelView) -> str:
    return (
        "<b>Where observations fall in their predicted distributions</b>, 0 below and 1 above everything expected. Flat is ideal; high ends: too sure; high middle: "
        f"too cautious; leaning: predictions too low (right) or too high (left). {_chance(view)} {_calibration_rows(view)}"
    )


def worst(view: ModelView) -> str:
    """What to do about the rows with the largest errors, and how they were predicted."""
    left_out = view.targets[0].shown.left_out
    encoding = getattr(view.model, "table_encoding_", None)
    told = view.test_numbers is not None or (encoding is not None and encoding.rows_left_out is not None)
    numbered = (
        "as in the table, of several files through all of them; a row of units below the names is not counted."
        if told
        else "without those that were left out because the target or an input is missing."
    )
    return _WORST + numbered + (f" They are training rows, {_from_all_others(view)}." if left_out else "")


def features(view: ModelView, shown: bool) -> str:
    if not shown:
        return "This model has no learned features: it works on the inputs as they are (a plain Gaussian process)."
    found = inspection.learned_features(view.model, view.X[:1], output=0)
    Q = found.H.shape[1]
    text = f"A learned map takes {_inputs(view)} to {counted(Q, 'feature')}, and the Gaussian process works on these."
    if found.weight < 0.999:
        text += f" Of the many members with learned features this is the one with the most weight (group {escape(found.group)}, {100 * found.weight:.0f} % of the prediction)."
    if len(view.inputs) == 1:
        text += f" Shown as functions of {escape(view.columns[0].label)}{', and by the directions in which they spread most' if Q > 2 else ''}."
    elif Q > 2:
        text += f" {counted(Q, 'feature')} do not fit on a screen: shown are the directions in which they spread most."
    return text + _thinned(view)


def feature_caption(view: ModelView) -> str:
    alike = "rows that lie close together are predicted alike, and good features sort the colours."
    if len(view.inputs) > 1:
        return f"<b>The rows as the kernel sees them, coloured by the target:</b> {alike}"
    return (
        "<b>Each line is a feature:</b> where it is steep the prediction can change fast, where it is flat it hardly changes. "
        f"The other views show the rows as the kernel sees them, coloured by the target: {alike}"
    )


def glossary(view: ModelView) -> str:
    named = [group.capitalize() for group in _groups(view) if group not in PLAIN_GPS] if _kind(view) in ("stack", "fast") else []
    where = 'explained under <a href="#training">Training</a>'
    groups = f" <b>{escape(', '.join(named))}</b>: {'groups' if len(named) > 1 else 'a group'} of mGPs, {where}." if named else ""
    return GLOSSARY + groups


def averaging(view: ModelView) -> str:
    kind = _kind(view)
    what = "; ".join(f"<b>{escape(g)}</b>: {_GROUPS[g]}" for g in _groups(view) if g in _GROUPS)
    if (left := _only_group(view)) is not None:
        return f"Of all models that were tried, held-out rows left one in the average. <b>{escape(left)}</b>: {_GROUPS.get(left, left)}."
    return escape(as_averaging(view.model.averaging).in_words) + (
        f" Groups: {what}." if what and kind in ("stack", "fast") else ""
    )


def _only_group(view: ModelView) -> str | None:
    """The group whose single model is all that held-out rows left of the first target's average; None: there are more, or nothing was held out."""
    report, ensembles = view.model.held_out_[0], view.model.ensembles_
    if report is None or len(ensembles) > 1 or sum(block.members for block in ensembles[0].blocks) > 1:
        return None
    return report.groups[int(report.weights.sum(1).argmax())]


def starts(view: ModelView) -> str:
    table = view.model.starts_
    both = "nested" in table["group"] and "warm" in _groups(view)
    return STARTS + about_endings(table) + (" <i>Nested</i>: the warm and the cold members." if both else "")


def weights(view: ModelView) -> str:
    report = view.targets[0].held_out
    if report is None:
        return "<b>Who makes the prediction:</b> the weights of its members."
    others = [f"{factor:g}" for factor in report.variance_factors if factor != 1.0]
    copies = f" Copies with their variance multiplied by {_list(others, 'or')} get weight where a group alone is too sure of itself, or not sure enough."
    return "<b>Who makes the prediction:</b> the weight of every group, found on held-out rows." + (copies if others else "")


def _kind(view: ModelView) -> str:
    """The name of the averaging; a model without one is a single model."""
    return as_averaging(view.model.averaging).shorthand()


def _groups(view: ModelView) -> list[str]:
    """The groups of an average: those that held-out rows were asked about, or else those that were trained."""
    report = view.model.held_out_[0]
    return list(dict.fromkeys(str(g) for g in (view.model.starts_["group"] if report is None else report.groups)))


def _inputs(view: ModelView) -> str:
    """How many columns of the table are inputs, and how many numbers the model sees for them."""
    columns, numbers = len(view.columns), len(view.inputs)
    return counted(columns, "input") + (f" ({counted(numbers, 'number')})" if numbers != columns else "")


def data(view: ModelView) -> str:
    sizes = f"{counted(view.trained_rows, 'row')}, {_inputs(view)}, {counted(view.model.n_outputs_, 'target')}"
    sample = (
        f" The numbers below are those of a sample of {counted(len(view.X), 'row')}, which the model keeps."
        if view.sampled
        else ""
    )
    return f"What the model was trained on: {sizes}.{sample} Outside these ranges it extrapolates: trust it less there."


def usage(view: ModelView, file: str) -> str:
    """Snippets for the model in ``file``."""
    encoding = getattr(view.model, "table_encoding_", None)
    python = _array_snippet(view.inputs, file) if encoding is None else _table_snippet(encoding, file)
    shell = f"mgp predict {argument(file)} new.csv --out predictions.csv"
    onnx = f"mgp export {argument(file)} --to onnx --out {argument(Path(file).stem + '.onnx')}"
    return (
        f'<h2>How to use it</h2><h3>In Python</h3><pre class="code">{escape(python)}</pre>'
        f'<h3>From the command line</h3><p>A table in, a table with mean, standard deviation and quantiles out.</p><pre class="code">{escape(shell)}</pre>'
        f'<h3>Without Python</h3><p>As an ONNX file, for a robot or a server.</p><pre class="code">{escape(onnx)}</pre>'
    )


def _array_snippet(inputs: list[str], file: str) -> str:
    """How to use a model that was fitted on an array or a frame of numbers."""
    return (
        f"import manifoldgp\n\nmodel = manifoldgp.load({_quoted(file)})  # written by model.save({_quoted(file)})\n"
        f"# X: rows with the columns {_first_names(inputs)}\nmean, std = model.predict(X, return_std=True)\n"
        "quantiles = model.predict_quantiles(X, q=(0.025, 0.5, 0.975))\nmodel.update(X_new, y_new)  # more data, without training again"
    )


def _table_snippet(encoding: TableEncoding, file: str) -> str:
    """How to use a model that was fitted on a table, which it takes as it is."""
    noise = f", noise_std={{}}[{encoding.noise!r}]" if encoding.noise else ""
    named = [column.name for column in encoding.columns] + ([encoding.noise] if encoding.noise else [])
    columns = _first_names([one_line(name) for name in named])
    targets = repr(encoding.targets[0] if len(encoding.targets) == 1 else list(encoding.targets))
    needed = [column.name for column in encoding.columns if encoding.missing == "drop"] + list(encoding.targets)
    return (
        "import manifoldgp\nfrom manifoldgp.data import read_table\n\n"
        f"model = manifoldgp.load({_quoted(file)})\n"
        f'table = read_table("new.csv")  # with the columns {columns}\n'
        f"mean, std = model.predict(table, return_std=True{noise.format('table')})\n"
        f"quantiles = model.predict_quantiles(table, q=(0.025, 0.5, 0.975){noise.format('table')})\n\n"
        'more = read_table("more.csv")  # more rows to learn from, without training again\n'
        f"more = more.dropna(subset={needed!r})  # others are left out, as at the fit\n"
        f"model.update(more, more[{targets}]{noise.format('more')})"
    )


def _quoted(text: str) -> str:
    """A text as Python writes it, in the quotes of these snippets."""
    return json.dumps(text, ensure_ascii=False)


def _first_names(names: list[str]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")


def _calibration_rows(view: ModelView) -> str:
    target = view.targets[0]
    n = len(target.calibration.pit)
    return {
        "test rows": f"From {n:,} test rows, {_unseen(view)}.",
        "held-out rows": f"From {counted(n, 'training row')} that were held out: no model that predicts them has seen them.",
        "leave-one-out": f"From {counted(n, 'training row')}, each predicted from all the others by parameters that have seen it: a little too kind.",
    }[target.calibration.source]


def _thinned(view: ModelView) -> str:
    drawn = len(view.targets[0].rows.y)
    return f" {drawn:,} of {counted(view.trained_rows, 'training row')} are drawn." if drawn < view.trained_rows else ""


def _training_rows(view: ModelView) -> str:
    return f"A sample of {counted(len(view.X), 'training row')}" if view.sampled else "Training rows"


def _typical_error(view: ModelView, target: TargetView) -> tuple[float, str]:
    """RMSE, and of which rows: test rows, else those that folds held out, else (the easiest test) training rows that were left out one at a time."""
    report = target.held_out
    if target.test is None and report is not None and report.mean is not None and report.observed is not None:
        scale = view.model.ensembles_[target.output].scale
        return errors_of(report.observed, report.mean, scale)["RMSE"], "held-out rows"
    return metrics.rmse(target.shown.observed, target.shown.mean), "rows left out" if target.shown.left_out else "test rows"


def _source(target: TargetView) -> str:
    return {"leave-one-out": "rows left out"}.get(target.calibration.source, target.calibration.source)


def _list(names: list[str], last: str = "and") -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def _strong(names: list[str]) -> str:
    return _list([f"<b>{escape(name)}</b>" for name in names])
