"""The bar of a fit: phases that come as planned, a time left that can be believed, and stopping."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from contextlib import suppress

import numpy as np
import pytest
import torch
from rich.console import Console

from manifoldgp import NUTS, GPRegressor, ManifoldGPRegressor, Single, Stack
from manifoldgp.cli._fit_progress import FitProgress
from manifoldgp.cli._fitted import few_points_afterwards
from manifoldgp.cli._interruption import Interruption
from manifoldgp.cli._messages import Messages
from manifoldgp.estimators.targets import titled
from manifoldgp.model import Model
from manifoldgp.structure.search import Search
from manifoldgp.training.plan import Phase, Plan, slower_by_inputs
from manifoldgp.training.progress import Lines, PhaseWatcher, Position, Progress, bar_here
from short_fits import few_starts, manifold, short_stack

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = np.sign(X[:, 0])  # a step, which learned features know how to take


class Notebook(PhaseWatcher):
    """Writes down what it is told."""

    def __init__(self, stop_in: str = "nowhere") -> None:
        self.entered: list[tuple[int, str]] = []
        self.stop_in = stop_in

    def begin(self, output: int, plan: Plan) -> None:
        self.output, self.planned = output, [phase.name for phase in plan.phases]

    def enter(self, phase: str) -> None:
        self.entered.append((self.output, phase))

    def __call__(self, iterations: np.ndarray, values: np.ndarray) -> bool:
        return self.stop_in in [phase for _, phase in self.entered]


@pytest.mark.parametrize(("averaging", "outputs"), [("stack", 1), ("fast", 1), ("restarts", 2), ("single", 2)])
def test_phases_come_in_the_planned_order(averaging, outputs):
    notebook = Notebook()
    targets = np.stack([Y, X[:, 1]][:outputs], 1)
    ManifoldGPRegressor(averaging=few_starts(averaging, 2, 5), callback=notebook).fit(X, targets)
    planned = notebook.planned
    for output in range(outputs):
        seen = [phase for o, phase in notebook.entered if o == output]
        later = iter(planned)
        assert all(phase in later for phase in seen)  # in order; few rows are dealt to folds several times
        assert seen[:4] == planned[:4]  # a stack leaves out later phases of groups that held-out rows do not want


def test_phases_of_a_sparse_fit_come_as_planned():
    notebook = Notebook()
    manifold(averaging="single", method="sparse", restarts=2, max_iter=2, inducing=5, callback=notebook).fit(X, X)
    assert notebook.entered == [(output, phase) for output in range(X.shape[1]) for phase in notebook.planned]


@pytest.mark.parametrize("part", [10_000, 12])
def test_phases_of_a_sparse_stack_come_in_the_planned_order(part, monkeypatch):
    monkeypatch.setattr("manifoldgp.averaging.sparse_training.PART_ROWS", part)
    notebook = Notebook()
    short_stack(inducing=5, callback=notebook, keep=-1.0).fit(X, Y)
    seen = [phase for _, phase in notebook.entered]
    assert seen == [name for name in notebook.planned if name in seen]
    assert seen[:4] == notebook.planned[:4]
    assert ("on all rows" in seen) == (part == 12)


def test_a_phase_that_is_not_in_the_plan_counts_as_the_one_before():
    position = Position(Plan((Phase("a", 10, 10, 10), Phase("b", 10, 20, 10))))
    position.enter("b")
    position.enter("surprise")
    position.tell(np.array([5]))
    assert (position.done, position.left) == (10, 10)


def test_a_phase_with_another_number_of_rows_is_the_planned_one():
    position = Position(Plan((Phase("own, 4,000 rows, 9 points", 10, 10, 10), Phase("own, 9,000 rows, 9 points", 10, 10, 10))))
    position.enter("own, 4,000 rows, 9 points")
    position.tell(np.array([10]))
    position.enter("own, 8,765 rows, 9 points")
    position.tell(np.array([5]))
    assert (position.done, position.left) == (15, 5)


def test_phases_that_are_left_out_are_no_work_that_was_done():
    position = Position(Plan((Phase("a", 10, 10, 10), Phase("b", 10, 100, 10, chance=0.5), Phase("c", 10, 20, 10))))
    position.enter("a")
    position.tell(np.array([10]))
    assert position.done == 10
    assert position.left == pytest.approx(
        (70 * (20 + 0.05 * 70)) ** 0.5
    )  # halfway, as factors go, between what is sure and what is expected
    position.enter("c")
    assert (position.done, position.left) == (10, 20)


def test_starts_that_stand_still_have_ended_and_others_may_go_on_beyond_what_is_usual():
    position = Position(Plan((Phase("starts", 100, 200.0, 500),)))
    position.enter("starts")
    for k in range(1, 41):
        position.tell(np.array([min(k, 20), k]))
    assert position.done == 60
    assert position.left == 60  # of the second start
    for k in range(41, 201):
        position.tell(np.array([20, k]))
    assert position.left == pytest.approx(0.3 * 200)
    for k in range(201, 499):
        position.tell(np.array([20, k]))
    assert position.left == 2  # the limit is near


def test_plain_lines_show_the_right_count_and_are_redrawn_where_they_can_be(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("manifoldgp.training.progress.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("manifoldgp.training.progress.seconds_a_unit", lambda: 0.1 * torch.get_num_threads())
    stream = io.StringIO()
    stream.isatty = lambda: True
    progress = Progress(1, bar=Lines(stream))
    progress.begin(0, Plan((Phase("plain GP", 10, 100.0, 200), Phase("warm", 20, 300.0, 25)), title="9 rows"), rows=2)
    for now, phase, iterations in ((1.0, "plain GP", 1), (10.0, "plain GP", 10), (25.0, "warm", 10), (40.0, "warm", 55)):
        clock[0] = now
        if iterations in (1, 10):
            progress.enter(phase)
        progress(np.array([iterations, iterations]), np.array([1.0, 2.0]))
    progress.stop()
    first, *lines = re.split(r"[\r\n]+", stream.getvalue().strip())
    assert first == "9 rows: about 40 s"
    assert lines[0].strip().endswith("2 %, starts: 2, iteration 1 of 200, NLML 0.500 a row, 1 s, about 39 s left")
    assert "1/2 plain GP |" in lines[1]
    assert "30 s left" in lines[1]
    assert "iteration 10 of 25" in lines[2]
    assert "iteration 55, NLML" in lines[3]


@pytest.mark.parametrize("terminal", [True, False])
def test_rich_draws_on_terminals_alone(terminal, monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    sys.stderr.isatty = lambda: terminal
    bar = bar_here()
    bar.stop()
    assert type(bar).__name__ == ("RichBar" if terminal else "Lines")


def test_a_stop_among_many_rows_leaves_what_counts_weighed_by_the_rows_that_decided(monkeypatch):
    """Ctrl-C took longer than the rest of the training: all groups were asked about all held-out rows, and those without weight were conditioned."""
    monkeypatch.setattr("manifoldgp.averaging.fold_training.DECIDE_ABOVE", 100)
    monkeypatch.setattr("manifoldgp.averaging.fold_contest.DECIDE_ROWS", 50)
    monkeypatch.setattr("manifoldgp.averaging.fold_contest.DECIDE_HELD_OUT", 60)
    monkeypatch.setattr(
        "manifoldgp.averaging.fold_contest.FoldContest.decide_by_all", lambda self: pytest.fail("all rows were asked")
    )
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(400, 2))
    y = np.sin(3.0 * inputs[:, 0]) * inputs[:, 1] + 0.1 * rng.normal(size=400)
    model = ManifoldGPRegressor(callback=Notebook("own on folds")).fit(inputs, y, ordered=True)
    report = model.held_out_[0]
    assert model.interrupted_
    assert len(report.pit) == len(report.together) == 180
    assert report.groups[0] == "plain GP"
    assert (report.weights[1:].sum(1) >= 0.04).all()  # the weights are found anew without the others
    assert model.diagnose().remarks


def test_a_stop_in_the_middle_of_a_stack_leaves_the_members_that_were_trained_on_folds():
    model = ManifoldGPRegressor(callback=Notebook("own on folds"), averaging=Stack(own_members=2)).fit(X, Y)
    starts = model.starts_
    counting = starts[starts["weight"] > 0]
    assert set(counting["group"]) > {"plain GP"}
    assert not set(counting["status"]) & {"stopped"}
    assert starts["weight"].sum() == pytest.approx(1.0)
    assert any("stopped on their way" in remark for remark in model.diagnose().remarks)
    assert any("before own members were trained to their end" in remark for remark in model.diagnose().remarks)


def test_a_stop_leaves_members_that_had_finished_in_a_fast_average():
    model = ManifoldGPRegressor(callback=Notebook("nested"), averaging="fast").fit(X, Y)
    assert set(model.starts_["group"][model.starts_["weight"] > 0]) == {"plain GP"}


def terminal(width=80):
    messages = Messages()
    messages.console = Console(file=io.StringIO(), force_terminal=True, width=width, highlight=False, color_system=None)
    return messages


def drawn(messages):
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", messages.console.file.getvalue()).replace("\r", "\n").split("\n")
    return [line for line in lines if line.strip()]


def test_the_bar_shows_phase_share_and_time_left(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("manifoldgp.training.progress.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("manifoldgp.training.progress.seconds_a_unit", lambda: 0.1 * torch.get_num_threads())
    messages = terminal()
    with FitProgress(1, messages, Interruption()) as progress:
        progress.begin(0, Plan((Phase("first", 10, 100.0, 10), Phase("second", 10, 300.0, 10)), title="9 rows"))
        progress.enter("first")
        clock[0] = 5.0
        assert progress(np.array([5, 5]), np.zeros(2)) is False  # 50 of 400 in 5 s: 35 s are left
        assert progress.course.seconds_left == pytest.approx(35.0)
        progress.bar.progress.refresh()
        progress(np.array([10, 10]), np.zeros(2))
        progress.enter("second")
        clock[0] = 25.0
        progress(np.array([10, 0]), np.zeros(2))  # 250 of 400 in 25 s
        assert progress.course.seconds_left == pytest.approx(15.0)
        progress.bar.progress.refresh()
    lines = drawn(messages)
    assert any(line.startswith("9 rows: about 40 s") for line in lines)
    assert any(line.startswith("1/2 first") and "12 %" in line and "about 35 s left" in line for line in lines)
    assert any(line.startswith("2/2 second") and "62 %" in line and "about 15 s left" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_budget_bounds_the_time_left(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("manifoldgp.training.progress.time.perf_counter", lambda: clock[0])
    messages = terminal()
    with FitProgress(1, messages, Interruption(), budget=30.0) as progress:
        progress.begin(0, Single(restarts=2).plan(40))
        progress.enter("starts")
        clock[0] = 10.0
        progress(np.array([1, 1]), np.zeros(2))
        progress.bar.progress.refresh()
    assert any("about 20 s left" in line for line in drawn(messages))


def test_of_a_second_or_less_no_more_is_said(monkeypatch):
    """A fit of 0.2 s had been said to take about 1 s."""
    monkeypatch.setattr("manifoldgp.training.progress.seconds_a_unit", lambda: 0.012 * torch.get_num_threads())
    messages = terminal()
    with FitProgress(1, messages, Interruption()) as progress:
        progress.begin(0, Plan((Phase("first", 10, 100.0, 10),), title="40 rows"))
        progress.enter("first")
        progress(np.array([5]), np.zeros(1))
        progress.bar.progress.refresh()
    told = drawn(messages)
    assert "40 rows: a second or less" in told
    assert not [line for line in told if "about" in line]


def test_a_budget_is_told_in_advance_by_its_option():
    messages = terminal()
    with FitProgress(1, messages, Interruption(), budget=30.0) as progress:
        progress.begin(0, Plan((Phase("first", 10, 100.0, 10),), title="9 rows, averaging='stack'"))
    told = " ".join(drawn(messages))
    assert "9 rows, --averaging stack: " in told
    assert ", at most 30 s (--time-budget)" in told


@pytest.mark.parametrize(("points", "kept", "outputs", "told"), [
    (2200, (3, 2, 2), 1, True), (1000, (3, 2, 2), 1, False), (225, (5, 12, 44), 1, False), (225, (5, 12, 44), 6, True), (0, (9,), 1, False),
])  # fmt: skip
def test_a_search_for_few_points_is_told_before_the_fit(points, kept, outputs, told):
    """Six seconds were announced of 2,200 rows; ten more went to few points, of which nothing was said before."""
    found = few_points_afterwards(Plan((), kept=kept, points=points), outputs)
    assert found == ("; then up to 10 s of processor time to look for few points, if the model is large" if told else "")


def test_steps_of_a_search_are_nearly_all_taken():
    """8 s were announced of a search that took 20: what is nearly sure counted as what features decide."""
    plan = Search().plan(163)
    assert plan.likely == plan.work > 0.75 * plan.span[1]
    position = Position(plan)
    position.enter("depth 2, all")
    assert position.left == pytest.approx(sum(phase.expected for phase in plan.phases[3:]) + plan.phases[2].work)


def test_a_search_says_what_it_is_and_its_own_option():
    messages = terminal()
    with FitProgress(1, messages, Interruption(), budget=30.0) as progress:
        plan = titled(Search(depth=2).plan(107), 107, Model(), Search(depth=2), "exact")
        progress.begin(0, plan)
    told = " ".join(drawn(messages))
    assert "107 rows, a search for kernels: " in told
    assert ", at most 30 s (--budget)" in told


@pytest.fixture
def default_signals():
    """Signals as a terminal has them, also where the tests run in the background."""
    default = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in default.items()}
    yield default
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_asks_and_a_later_interrupt_ends(default_signals, number):
    with Interruption() as interruption, FitProgress(1, terminal(), interruption) as progress:
        progress.begin(0, Single().plan(40))
        progress.enter("starts")
        with progress.interruptible():
            os.kill(os.getpid(), number)
            assert progress(np.array([1]), np.zeros(1)) is True
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        assert interruption.exit_code == 128 + number
    assert {known: signal.getsignal(known) for known in default_signals} == default_signals


@pytest.mark.usefixtures("default_signals")
def test_a_closing_terminal_sends_several_signals_and_they_cut_nothing_short():
    with Interruption() as interruption, FitProgress(1, terminal(), interruption) as progress:
        progress.begin(0, Single().plan(40))
        with progress.interruptible():
            for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM):
                os.kill(os.getpid(), number)
            assert progress(np.array([1]), np.zeros(1)) is True
        os.kill(os.getpid(), signal.SIGHUP)  # while the model is written
        assert interruption.exit_code == 129


@pytest.mark.usefixtures("default_signals")
def test_who_sends_a_signal_reads_at_once_that_training_is_ending(capfd):
    """For half a minute nothing had been said."""
    with Interruption() as interruption, FitProgress(1, Messages(), interruption) as progress:
        progress.begin(0, Single().plan(40))
        with progress.interruptible():
            os.kill(os.getpid(), signal.SIGINT)
            assert capfd.readouterr().err.endswith(
                "mgp: Interrupted: training is ending, which takes some seconds. Ctrl-C again ends at once.\n"
            )
            os.kill(os.getpid(), signal.SIGTERM)
            assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("default_signals")
def test_only_who_pressed_ctrl_c_is_told_to_press_it_again(capfd):
    """A scheduler, which sends SIGTERM, has no keyboard."""
    with Interruption() as interruption, FitProgress(1, Messages(), interruption) as progress:
        progress.begin(0, Single().plan(40))
        with progress.interruptible():
            os.kill(os.getpid(), signal.SIGTERM)
            assert capfd.readouterr().err.endswith("mgp: Interrupted: training is ending, which takes some seconds.\n")


@pytest.mark.usefixtures("default_signals")
def test_a_signal_before_training_ends_at_once():
    with Interruption() as interruption:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.exit_code == 143


def test_a_signal_that_is_ignored_stays_so(default_signals):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not interruption.wanted


@pytest.mark.usefixtures("default_signals")
def test_an_interrupt_that_a_sampler_swallows_is_not_forgotten():
    for failure in (None, ValueError("no draws")):
        with (
            Interruption() as interruption,
            FitProgress(1, terminal(), interruption, watched=False) as progress,
        ):
            progress.begin(0, NUTS(restarts=2, max_iter=5).plan(40))
            progress.enter("MAP starts")
            with pytest.raises(KeyboardInterrupt):
                _sample(progress, failure)


def _sample(progress: FitProgress, failure: Exception | None) -> None:
    with progress.interruptible():
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        if failure is not None:
            raise failure


@pytest.mark.parametrize(
    ("rows", "columns", "least", "most"), [(50, 2, 1.1, 1.2), (50, 32, 3.0, 3.5), (172, 96, 4.0, 5.0), (12_000, 8, 1.0, 1.05)]
)
def test_fits_with_many_inputs_and_few_rows_are_expected_to_take_longer(rows, columns, least, most):
    assert least < slower_by_inputs(rows, columns) < most


def test_members_that_learn_from_some_rows_are_as_slow_as_with_these():
    assert Stack().slower(2200, 31) == Stack().slower(450, 31) < Stack().slower(225, 31)


def test_the_first_estimate_knows_the_number_of_inputs(monkeypatch, capsys):
    """A table with 32 columns took 8 times what was said at first."""
    monkeypatch.setattr("manifoldgp.training.progress.seconds_a_unit", lambda: 10.0 * torch.get_num_threads())
    said = []
    for columns in (1, 100):
        wide = np.random.default_rng(0).normal(size=(30, columns))
        GPRegressor(verbose=True, restarts=1, max_iter=1).fit(wide, wide[:, 0])
        said.append(capsys.readouterr().err.splitlines()[0])
    assert said[0] != said[1]
