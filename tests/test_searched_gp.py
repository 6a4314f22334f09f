"""The searched GP of a stack: a kernel is found on every fold, from its rows alone, and held-out rows weigh it as one more plain GP."""

import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from manifoldgp import KernelSearch, ManifoldGPRegressor, Search, Single, Stack, load
from manifoldgp._system.threads import Workers
from manifoldgp.averaging.averages import FoldChoice
from manifoldgp.averaging.final_members import Share, conditioned, mixed
from manifoldgp.averaging.fold_contest import FoldContest
from manifoldgp.averaging.fold_groups import Group
from manifoldgp.averaging.fold_predictions import make_batch
from manifoldgp.averaging.kinds import SEARCHED_GP
from manifoldgp.averaging.searched_gp import search_on_folds
from manifoldgp.averaging.stacking import PLAIN_GPS
from manifoldgp.errors import InputError
from manifoldgp.kernels import Matern32, Periodic
from manifoldgp.model import Data, Model
from manifoldgp.parameters import leaves
from manifoldgp.training.processes import ALONE
from manifoldgp.training.progress import PhaseWatcher
from manifoldgp.training.trainer import Trainer

QUICK = Search(depth=2, beam=1, kernels=("linear", "periodic"), max_iter=15)
QUICKER = replace(QUICK, depth=1, max_iter=5)


def series(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A trend and a period of one, seen at times that are drawn: too few rows for a kernel that knows no periods."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 10, rows))
    return t[:, None], 0.5 * t + 2 * np.sin(2 * np.pi * t) + 0.3 * rng.normal(size=rows)


def trainer() -> Trainer:
    return Trainer(torch.Generator().manual_seed(0), Workers(1))


def few_rows() -> Data:
    X, y = series(24, seed=3)
    return Data(torch.as_tensor(X - X.mean()), torch.as_tensor((y - y.mean()) / y.std()))


@pytest.fixture(scope="module")
def model() -> ManifoldGPRegressor:
    return ManifoldGPRegressor(averaging=Stack(deals=1, search=QUICK)).fit(*series(60, seed=0))


def test_held_out_rows_give_it_the_weight_and_the_stack_gains(model):
    report, (X_test, y_test) = model.held_out_[0], series(300, seed=1)
    weights = dict(zip(report.groups, report.weights.sum(1), strict=True))
    assert weights[SEARCHED_GP] > 0.8
    assert SEARCHED_GP in PLAIN_GPS
    without = ManifoldGPRegressor(averaging=Stack(deals=1)).fit(*series(60, seed=0))
    gain = model.log_predictive_density(X_test, y_test) - without.log_predictive_density(X_test, y_test)
    assert gain.mean() > 5 * gain.std() / np.sqrt(len(gain))  # clearly, whichever optima the other plain GPs end at
    named = set(without.held_out_[0].groups)
    assert set(report.groups) == named | {SEARCHED_GP}


def test_other_groups_are_what_they_are_without_it(model):
    without = ManifoldGPRegressor(averaging=Stack(deals=1)).fit(*series(60, seed=0)).held_out_[0]
    for name in ("plain GP", "rough GP", "warm"):
        np.testing.assert_allclose(model.held_out_[0].log_density[name], without.log_density[name], atol=1e-6)


def test_what_was_found_is_said(model):
    remarks = model.diagnose().remarks
    assert any(remark.startswith("The searched GP has the kernel ") and "Per(x0)" in remark for remark in remarks)
    assert any("best plain GP (searched GP)" in remark for remark in remarks)


def test_files_hold_it(model, tmp_path):
    X, _ = series(40, seed=2)
    model.save(tmp_path / "model.mgp")
    again = load(tmp_path / "model.mgp")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.averaging.search == QUICK
    np.testing.assert_allclose(model.predictor()(X), model.predict(X), rtol=1e-6, atol=1e-6)


def test_a_file_names_no_cache(model, tmp_path):
    named = ManifoldGPRegressor(averaging=Stack(search=replace(QUICK, cache=tmp_path / "cache.json")))
    named.__dict__.update({name: value for name, value in vars(model).items() if name.endswith("_") or name.startswith("_")})
    named.save(tmp_path / "model.mgp")
    assert load(tmp_path / "model.mgp").averaging.search == QUICK


@dataclass(repr=False)
class Seen(Search):
    """A search that remembers the targets of every call."""

    def fit(self, model, data, trainer, folds):
        self.__dict__.setdefault("targets", []).append(set(data.y.tolist()))
        return super().fit(model, data, trainer, folds)


def test_a_fold_is_searched_on_its_own_rows_alone():
    data, held_out = few_rows(), [np.arange(0, 24, 3), np.arange(1, 24, 3), np.arange(2, 24, 3)[:-1]]
    seen = Seen(depth=1, beam=1, kernels=("linear",), max_iter=3)
    search_on_folds(seen, Model(), make_batch(data, held_out), 100, trainer())
    assert len(seen.targets) == 3
    for targets, rows in zip(seen.targets, held_out, strict=True):
        assert targets == set(
            np.delete(data.y.numpy(), rows).tolist()
        )  # rows that only fill up a smaller fold are not among them


def test_held_out_targets_change_nothing_of_their_fold():
    data, held_out = few_rows(), [np.arange(0, 24, 2), np.arange(1, 24, 2)]
    other = Data(data.X, data.y.clone())
    other.y[0::2] = torch.as_tensor(np.random.default_rng(0).normal(size=12))
    mine, others = (search_on_folds(QUICKER, Model(), make_batch(rows, held_out), 100, trainer()) for rows in (data, other))
    assert mine is not None
    assert others is not None
    assert mine.batch.model == others.batch.model
    for (name, leaf), (_, same) in zip(leaves(mine.values), leaves(others.values), strict=True):
        torch.testing.assert_close(leaf, same, msg=name)
    assert abs(mine.further[0].batch.nlml - others.further[0].batch.nlml) > 1.0  # of the other fold, which learnt from them


def one_each(kernels) -> tuple[list[Group], FoldContest]:
    """A plain GP with another kernel on every fold, and the contest of these folds."""
    data, K = few_rows(), len(kernels)
    folds = make_batch(data, [np.arange(k, 24, K) for k in range(K)])
    groups = []
    for k, kernel in enumerate(kernels):
        rows = folds.train.rows(torch.tensor([k]))
        batch = trainer().fit("plain", Model(kernel=kernel), rows, 1, 5)
        groups.append(Group(batch, np.zeros(1, dtype=int), np.ones((1, 1)), 5, rows))
    return groups, FoldContest(folds, Stack(), trainer(), lambda: False)


def test_a_kernel_of_its_own_for_every_fold_predicts_that_fold():
    groups, contest = one_each([Matern32(), Periodic(), Matern32()])
    together = contest.predict(replace(groups[0], further=tuple(groups[1:])), contest.folds)
    for k, group in enumerate(groups):
        alone = contest.predict(group, contest.folds.part(k, 3))
        rows = np.arange(k, 24, 3)
        for exponent in (0.0, 1.0):
            both, own = together.following(exponent), alone.following(exponent)
            np.testing.assert_array_equal(both.log_density[:, rows], own.log_density)
            np.testing.assert_array_equal(both.cdf[:, rows], own.cdf)
            np.testing.assert_array_equal(both.counts[rows], own.counts)


def test_kernels_of_the_folds_count_the_same_and_are_not_mixed_up():
    groups, contest = one_each([Matern32(), Periodic()])
    both = replace(groups[0], further=(groups[1],))
    contest.add("plain GP", groups[0].on(2))
    contest.add(SEARCHED_GP, both)
    assert both.size == 2
    weights, _, report = contest.weights(list(contest.groups))
    assert np.isfinite(report.mean).all()
    found = mixed([conditioned({SEARCHED_GP: both}, {SEARCHED_GP: Share(np.array([0.6, 0.4]), -2.0)})])
    assert [type(batch.model.kernel) for batch in found.batches] == [Matern32, Periodic]
    np.testing.assert_allclose(found.weights, [[[0.3], [0.2]]] * 2)
    np.testing.assert_allclose(found.usual, [[-2.0], [-2.0]])
    assert weights.shape == (2, len(Stack().variance_factors))


def test_from_600_rows_on_the_kernels_of_the_folds_predict():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 40, 620))
    y = np.sin(2 * np.pi * t) + 0.5 * np.sin(0.3 * t) + 0.1 * rng.normal(size=620)
    quick = Search(depth=1, beam=1, kernels=("periodic",), rows=100, max_iter=10)
    stack = Stack(search=quick, learn_rows=150, gp_starts=1, gp_iterations=10, fold_members=1, steps=(2,), warm_iterations=2)
    fitted = ManifoldGPRegressor(averaging=stack).fit(t[:, None], y)
    starts = fitted.starts_[fitted.starts_["group"] == SEARCHED_GP]
    assert len(starts) == 2
    assert starts["weight"].sum() == pytest.approx(fitted.diagnose().numbers["weight of searched GP"], abs=1e-3)
    assert starts["weight"].sum() > 0.1


class Phases(PhaseWatcher):
    """Which phases were planned and entered, and an end after so many rounds of one."""

    def __init__(self, interrupt_in: str = "") -> None:
        self.planned, self.entered, self.interrupt_in = [], [], interrupt_in

    def begin(self, output, plan):
        self.planned, self.work = [phase.name for phase in plan.phases], plan.work

    def enter(self, phase):
        self.entered.append(phase)

    def __call__(self, iterations, values):
        if self.interrupt_in and self.entered[-1].startswith(self.interrupt_in):
            self.interrupt_in = ""
            raise KeyboardInterrupt


def test_it_is_planned_and_told():
    watcher = Phases()
    ManifoldGPRegressor(averaging=Stack(deals=1, search=QUICKER), callback=watcher).fit(*series(40, seed=0))
    searching = [phase for phase in watcher.entered if phase.startswith(SEARCHED_GP) and "without a part" not in phase]
    assert {phase.split(",")[0] for phase in searching} >= {f"{SEARCHED_GP} on fold {k}" for k in range(1, 6)}
    assert {*searching, f"{SEARCHED_GP}, winner"} <= set(watcher.planned)
    assert watcher.work > 1.5 * Stack(deals=1).plan(40).work
    assert Stack(search=QUICK).slower(100, 10) > Stack().slower(100, 10)


def test_an_interrupt_ends_the_stack_too():
    watcher = Phases(interrupt_in=f"{SEARCHED_GP} on fold 1, depth 2")
    with pytest.warns(UserWarning, match="interrupted"):
        model = ManifoldGPRegressor(averaging=Stack(search=QUICK), callback=watcher).fit(*series(40, seed=0))
    assert not any("nested" in phase or "fold 2" in phase for phase in watcher.entered)
    assert np.isfinite(model.predict(series(5, seed=1)[0])).all()


def test_a_time_budget_holds():
    begin = time.perf_counter()
    thorough = Search(depth=6, beam=4)
    model = ManifoldGPRegressor(averaging=Stack(search=thorough), time_budget=3.0).fit(*series(60, seed=0))
    assert time.perf_counter() - begin < 6.0
    assert np.isfinite(model.predict(series(5, seed=1)[0])).all()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (True, "search must be None"),
        ("bic", "search must be None"),
        (KernelSearch(), "search must be None"),
        (Single(), "search must be None"),
        (Search(depth=0), "depth must be"),
        (Search(criterion="held-out"), "criterion='held-out' has no place in a stack"),
        (Search(on_features=True), "on_features=True has no place in a stack"),
    ],
)
def test_what_is_no_search_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        ManifoldGPRegressor(averaging=Stack(search=given)).fit(*series(20, seed=0))


@pytest.mark.parametrize("method", ["sparse", "local"])
def test_methods_that_have_none_are_refused(method):
    with pytest.raises(InputError, match=r"search=Search\(\) needs method='exact'"):
        ManifoldGPRegressor(averaging=Stack(search=Search()), method=method).fit(*series(20, seed=0))


def test_many_rows_are_refused_rather_than_searched_in_neighbourhoods():
    with pytest.raises(InputError, match="fit at most 3,000 rows, or say method='exact'"):
        ManifoldGPRegressor(averaging=Stack(search=Search())).fit(*series(3001, seed=0))


def test_a_search_alone_is_no_average():
    with pytest.raises(InputError, match=r"averaging=Stack\(search=Search\(depth=2\)\).* KernelSearch"):
        ManifoldGPRegressor(averaging=Search(depth=2)).fit(*series(20, seed=0))


def test_processes_cannot_share_it():
    several = replace(trainer(), ranks=replace(ALONE, count=2))
    with pytest.raises(InputError, match="torchrun"):
        Stack(search=QUICK).fit(Model(), few_rows(), several, FoldChoice())
