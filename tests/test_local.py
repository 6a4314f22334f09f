"""Posteriors in cells: what they have in common with exact ones, and stacks of many rows that use them."""

import copy
import pickle

import numpy as np
import pytest
import torch
from scipy.spatial import KDTree

import manifoldgp
from manifoldgp import GaussianNoise, GPRegressor, Local, ManifoldGPRegressor, Stack
from manifoldgp.averaging.folds import held_out_in_turn
from manifoldgp.errors import FileFormatError, InputError
from manifoldgp.estimators import program_targets
from manifoldgp.estimators.method import chosen_method
from manifoldgp.inference.cells import Cells, nearest
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.inference.local_posterior import LocalPosterior, condition_locally, conditioned
from manifoldgp.inference.neighbourhoods import Nearness
from manifoldgp.inference.sparse_posterior import SparsePosterior, condition_sparse, through_points
from manifoldgp.kernels import Additive, Matern32, SquaredExponential
from manifoldgp.model import Data, Model
from manifoldgp.training.settings import Exact, Sparse


def rows(N: int, D: int = 2, seed: int = 0, noise: float = 0.1) -> Data:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, -1] + noise * rng.normal(size=N)
    return Data(torch.as_tensor(X), torch.as_tensor(y))


def values(members: int = 2, D: int = 2) -> dict:
    lengthscale = torch.linspace(0.6, 0.9, members, dtype=torch.float64)[:, None].expand(members, D).contiguous()
    return {
        "kernel": {"variance": torch.ones(members, dtype=torch.float64), "lengthscale": lengthscale},
        "noise": {"scale": torch.full((members,), 0.1, dtype=torch.float64)},
    }


def points(n: int, D: int = 2) -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(1).normal(size=(n, D)))


def test_every_point_is_in_one_cell_and_new_points_find_it():
    G = np.random.default_rng(0).normal(size=(1003, 4))
    cells = Cells(lambda rows: G[rows], len(G), 100)
    assert cells.count == 10
    every = np.concatenate([cells.rows(cell) for cell in range(cells.count)])
    np.testing.assert_array_equal(np.sort(every), np.arange(1003))
    assert all(80 <= len(cells.rows(cell)) <= 120 for cell in range(cells.count))
    found = cells.of(G)
    for cell in range(cells.count):
        np.testing.assert_array_equal(np.flatnonzero(found == cell), np.sort(cells.rows(cell)))


def test_rows_near_a_cell_are_its_own_and_the_nearest_others():
    G = np.random.default_rng(0).normal(size=(400, 3))
    cells = Cells(lambda rows: G[rows], len(G), 50)
    own = cells.rows(3)
    near = cells.near(3, 120)
    assert len(near) == 120
    assert np.isin(own, near).all()
    away = np.linalg.norm(G[:, None] - G[None, own], axis=-1).min(1)
    others = np.setdiff1d(np.arange(400), near)
    assert away[near].max() <= away[others].min() + 1e-5
    assert len(cells.near(3, 4000)) == 400
    np.testing.assert_array_equal(nearest(G[:5], G[:2], 9), np.arange(5))


def test_near_rows_are_found_on_both_sides_of_the_first_cut():
    G = np.random.default_rng(0).uniform(size=(20_000, 2)) * [10.0, 1.0]
    cells = Cells(lambda rows: G[rows], len(G), 100)
    beside = int(cells.of(np.array([[5.0, 0.5]]))[0])
    x = G[cells.near(beside, 400), 0]
    assert (x < 4.98).sum() > 60
    assert (x > 5.02).sum() > 60


def test_features_that_are_not_kept_are_the_same(monkeypatch):
    data, near = rows(900), Nearness(10, 40, 80)
    kept = condition_locally(Model(), values(), data, near)
    monkeypatch.setattr("manifoldgp.inference.neighbourhoods.KEPT_FEATURES", 0)
    monkeypatch.setattr("manifoldgp.inference.neighbourhoods._AT_ONCE", 64)
    computed = condition_locally(Model(), values(), data, near)
    X = points(50)
    for found, expected in zip(computed.mean_and_variance(X), kept.mean_and_variance(X), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(computed.points, kept.points)


def test_of_very_many_rows_those_held_out_lie_in_cells():
    X = np.random.default_rng(0).normal(size=(50_000, 3))
    (held_out,) = held_out_in_turn(X, np.random.default_rng(1), None, False)
    assert len(np.unique(held_out)) == 2000
    cells = Cells(lambda rows: X[rows], len(X), 100)
    assert len(np.unique(cells.cell_of[held_out])) == 100
    left, _ = KDTree(np.delete(X, held_out, axis=0)).query(X[held_out], 1)
    assert np.median(left) < 1.5 * np.median(KDTree(X).query(X[:2000], 2)[0][:, 1])  # rows to learn from are near


def test_points_that_are_all_the_same_are_one_cell():
    cells = Cells(lambda rows: np.ones((len(rows), 2)), 50, 10)
    assert cells.count == 1
    np.testing.assert_array_equal(cells.of(np.zeros((3, 2))), [0, 0, 0])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_many_points_at_the_far_end_do_not_keep_the_others_together(sign):
    x = np.random.default_rng(0).uniform(size=1000)
    G = sign * np.where(np.arange(1000) < 600, 1.5, x)[:, None]
    cells = Cells(lambda rows: G[rows], 1000, 100)
    assert sorted(len(cells.rows(cell)) for cell in range(cells.count)) == [100, 100, 100, 100, 600]
    np.testing.assert_array_equal(cells.of(G), cells.cell_of)


def test_one_cell_with_fewer_rows_than_are_near_is_the_exact_posterior():
    data, X = rows(50), points(5)
    local, exact = condition_locally(Model(), values(), data, Nearness(10, 100, 200)), condition(Model(), values(), data)
    assert local.each[0].cells.count == 1
    for found, expected in zip(local.mean_and_variance(X), exact.mean_and_variance(X), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


def test_of_very_many_rows_at_few_places_enough_are_held_out():
    X = np.random.default_rng(0).integers(0, 2, size=(50_000, 2)).astype(float)
    (held_out,) = held_out_in_turn(X, np.random.default_rng(1), None, False)
    assert len(np.unique(held_out)) == 2000


def test_the_number_of_features_is_known_without_those_of_all_rows(monkeypatch):
    local = condition_locally(Model(), values(2, 3), rows(200, 3), Nearness(10, 40, 80))
    monkeypatch.setattr(LocalPosterior, "points", property(lambda self: pytest.fail("all features were computed")))
    assert local.features == 3


def test_many_rows_at_few_places_have_no_large_factor():
    data = rows(900)
    switched = Data((data.X > 0).double(), data.y)
    local = condition_locally(Model(), values(1), switched, Nearness(10, 40, 80))
    assert local.each[0].cells.count == 4
    mean, variance = local.mean_and_variance(switched.X[:50])
    assert bool(torch.isfinite(mean).all() and (variance > 0).all())
    assert max(len(factor.rows) for factor in local.each[0].kept.factors.values()) == 80
    left_out = local.left_out(torch.arange(900))
    assert all(bool(torch.isfinite(part).all()) for part in left_out)
    assert np.isfinite(float(local.nlml()[0]))


def test_rows_are_left_out_of_the_cell_that_they_were_put_into():
    data = rows(1500, 8)
    local = condition_locally(Model(), values(1, 8), data, Nearness(10, 20, 40))
    some = torch.arange(300)
    mean, variance = local.left_out(some)
    cells = local.each[0].cells
    for i in (0, 17, 299):
        near = torch.as_tensor(cells.near(int(cells.cell_of[i]), 40))
        others = near[near != i]
        alone = condition(Model(), values(1, 8), Data(data.X[others], data.y[others]))
        expected, left = alone.mean_and_variance(data.X[i : i + 1])
        torch.testing.assert_close(mean[0, i], expected[0, 0], rtol=1e-7, atol=1e-7)
        torch.testing.assert_close(variance[0, i], left[0, 0] + alone.noise_variance()[0], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kernel", [SquaredExponential(), Matern32()])
def test_with_all_rows_near_a_local_posterior_is_the_exact_one(kernel):
    data, model = rows(150), Model(kernel=kernel)
    exact = condition(model, values(), data)
    local = condition_locally(model, values(), data, Nearness(10, 40, 150))
    X = points(30)
    for found, expected in zip(local.mean_and_variance(X), exact.mean_and_variance(X), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    for found, expected in zip(local.covariance(X), exact.covariance(X), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    some = torch.tensor([0, 17, 149])
    for found, expected in zip(local.left_out(some), exact.left_out(some), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)
    assert len(local.mean_and_variance(X[:0])[0][0]) == 0


def test_rows_far_away_add_little():
    data, model = rows(1500), Model(kernel=Matern32())
    exact, local = condition(model, values(), data), condition_locally(model, values(), data, Nearness(10, 100, 400))
    X = points(200)
    mean, variance = exact.mean_and_variance(X)
    near_mean, near_variance = local.mean_and_variance(X)
    assert float(((near_mean - mean).abs() / variance.sqrt()).mean()) < 0.02
    assert float((near_variance / variance).log().abs().mean()) < 0.02
    assert bool((near_variance >= variance - 1e-9).all())  # fewer rows never know more
    independent = float(local.nlml()[0])
    assert float(exact.nlml()[0]) < independent  # cells that know nothing of each other explain less


def test_known_noise_masked_rows_and_a_mean_are_obeyed():
    data = rows(120)
    noisy = Data(data.X, data.y, torch.linspace(0.0, 0.5, 120, dtype=torch.float64), (torch.arange(120) % 7 > 0).double())
    exact = condition(Model(), values(), noisy)
    local = condition_locally(Model(), values(), noisy, Nearness(10, 30, 120))
    X = points(10)
    for found, expected in zip(local.mean_and_variance(X), exact.mean_and_variance(X), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_slopes_are_those_of_the_mean_inside_a_cell():
    local = condition_locally(Model(), values(1), rows(300), Nearness(10, 60, 120))
    X = points(5).requires_grad_()
    (slope,) = torch.autograd.grad(local.moments(X)[0].sum(), X)
    step = 1e-6 * torch.eye(2, dtype=torch.float64)
    for d in range(2):
        ahead, behind = (local.mean_and_variance(X.detach() + sign * step[d])[0][0] for sign in (1, -1))
        torch.testing.assert_close((ahead - behind) / 2e-6, slope[:, d], rtol=1e-5, atol=1e-6)


def test_more_rows_are_conditioning_anew_and_members_can_be_picked():
    data, nearness = rows(200), Nearness(10, 40, 80)
    first = Data(data.X[:150], data.y[:150])
    grown = condition_locally(Model(), values(), first, nearness).condition(data.X[150:], data.y[150:])
    anew, X = condition_locally(Model(), values(), data, nearness), points(20)
    for found, expected in zip(grown.mean_and_variance(X), anew.mean_and_variance(X), strict=True):
        assert torch.equal(found, expected)
    second = anew.only(torch.tensor([1]))
    assert torch.equal(second.mean_and_variance(X)[0][0], anew.mean_and_variance(X)[0][1])
    again = copy.deepcopy(pickle.loads(pickle.dumps(anew)))
    torch.testing.assert_close(
        again.mean_and_variance(X)[1], anew.mean_and_variance(X)[1], rtol=1e-10, atol=1e-12
    )  # BLAS adds in another order where arrays lie elsewhere


def test_copies_of_rows_without_noise_need_jitter_and_say_so():
    data = rows(60, noise=0.0)
    twice = Data(data.X.repeat(3, 1), data.y.repeat(3))
    tree = values(1)
    tree["noise"]["scale"] = torch.full((1,), 1e-12, dtype=torch.float64)
    tree["kernel"]["lengthscale"] = torch.full((1, 2), 30.0, dtype=torch.float64)
    local = condition_locally(Model(noise=GaussianNoise(floor=1e-12)), tree, twice, Nearness(10, 40, 90))
    mean, variance = local.mean_and_variance(points(20))
    assert bool(torch.isfinite(mean).all() and (variance >= 0).all())
    assert float(local.jitter[0]) > 0


def test_what_has_one_set_of_weights_is_asked_of_the_whole():
    local = condition_locally(Model(), values(), rows(200), Nearness(10, 40, 80))
    assert type(local.whole()) is type(condition(Model(), values(), rows(10)))
    for name in ("whitener", "alpha"):
        with pytest.raises(NotImplementedError, match="whole"):
            getattr(local, name)() if name == "whitener" else getattr(local, name)


def test_kernels_that_reach_far_go_through_inducing_points(monkeypatch):
    monkeypatch.setattr("manifoldgp.inference.local_posterior.WHOLE_ROWS", 200)
    data, model = rows(300, 3), Model(kernel=Additive())
    _, drawn = model.draw(data, torch.Generator().manual_seed(0), 1)
    posterior = conditioned(model, drawn, data, Nearness(100, 50, 100))
    assert isinstance(posterior, SparsePosterior)
    assert posterior.points.shape[1] == 100
    grown = posterior.condition(data.X[:5], data.y[:5])
    assert len(grown.data.y) == grown.rows == 305
    assert bool(torch.isfinite(grown.left_out(torch.tensor([0, 304]))[0]).all())
    assert isinstance(conditioned(Model(), values(), rows(300), Nearness(100, 50, 100)), LocalPosterior)
    exact, through = condition(Model(), values(), rows(80)), through_points(Model(), values(), rows(80), 80)
    torch.testing.assert_close(
        through.mean_and_variance(points(5))[0], exact.mean_and_variance(points(5))[0], rtol=1e-4, atol=1e-4
    )


def test_of_very_many_rows_inducing_points_stand_for_some(monkeypatch):
    data = rows(900)
    whole = through_points(Model(), values(), data, 60)
    monkeypatch.setattr("manifoldgp.inference.sparse_posterior.MOST_THROUGH", 300)
    some = through_points(Model(), values(), data, 60)
    assert (whole.rows, some.rows, len(some.data.y)) == (900, 300, 900)
    inducing = {"inducing": {"Z": some.Z}}
    expected = condition_sparse(Model(), values() | inducing, Data(data.X[::3], data.y[::3]))
    for found, told in zip(some.mean_and_variance(points(20)), expected.mean_and_variance(points(20)), strict=True):
        torch.testing.assert_close(found, told)
    grown = some.condition(points(5), torch.zeros(5, dtype=torch.float64))
    assert (grown.rows, len(grown.data.y)) == (305, 905)
    assert bool(torch.isfinite(grown.left_out(torch.tensor([0, 904]))[0]).all())


FEW = Stack(gp_starts=1, fold_members=1, steps=(5, 10), warm_iterations=5, learn_rows=150)


def table(N: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(N, 2))
    return X, np.sign(X[:, 0]) * np.sin(3 * X[:, 1]) + 0.1 * rng.normal(size=N)


@pytest.fixture(scope="module")
def fitted() -> ManifoldGPRegressor:
    return ManifoldGPRegressor(averaging=FEW, method=Local(cell=60, near=200), random_state=0).fit(*table(700))


def test_a_stack_of_neighbourhoods_predicts_as_well_as_the_exact_one(fitted):
    X, y = table(400, 1)
    exact = ManifoldGPRegressor(averaging=FEW, method="exact", random_state=0).fit(*table(700))
    assert (fitted.method_, exact.method_) == ("local", "exact")
    losses = [float(-model.log_predictive_density(X, y).mean()) for model in (fitted, exact)]
    errors = [float(np.sqrt(np.mean((model.predict(X) - y) ** 2))) for model in (fitted, exact)]
    assert losses[0] < losses[1] + 0.1
    assert errors[0] < 1.1 * errors[1]
    mean, std = fitted.predict(X, return_std=True)
    assert 0.88 < np.mean(np.abs(y - mean) < 1.96 * std) <= 1.0
    assert "nearest" in str(fitted.diagnose())


def test_files_of_neighbourhoods_are_small_and_give_the_same_bits(fitted, tmp_path):
    X, _ = table(50, 1)
    fitted.save(tmp_path / "m.mgp")
    again = manifoldgp.load(tmp_path / "m.mgp")
    assert again.method_ == "local"
    for found, expected in zip(again.predict(X, return_std=True), fitted.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(found, expected)
    blocks = fitted.ensembles_[0].blocks
    held = sum(8 * block.members * block.rows * (block.points.shape[-1] + 1) for block in blocks)
    assert (tmp_path / "m.mgp").stat().st_size < 1.5 * held + 200_000
    with pytest.raises(InputError, match="float32"):
        fitted.save(tmp_path / "m.mgp", dtype="float32")


def test_forged_cells_are_refused(fitted, tmp_path, monkeypatch):
    block = fitted.ensembles_[0].blocks[0]
    monkeypatch.setattr(type(block.nearness), "cell", 1, raising=False)
    object.__setattr__(block.nearness, "cell", 1)
    try:
        fitted.save(tmp_path / "m.mgp")
        with pytest.raises(FileFormatError, match="at least two rows"):
            manifoldgp.load(tmp_path / "m.mgp")
    finally:
        object.__setattr__(block.nearness, "cell", 60)


def test_a_small_program_of_neighbourhoods_is_made_where_that_takes_seconds_only(fitted, monkeypatch):
    """With 5,000 rows and seven members the rows of all cells at once took minutes after the fit, in silence."""
    searches = []
    monkeypatch.setattr(program_targets, "_WHOLE_WORK", 1.0)
    assert program_targets.small_predictor(fitted, 10**9, 1e-3, lambda: searches.append(1)) is None
    assert not searches
    monkeypatch.undo()
    assert program_targets.small_predictor(fitted, 10**9, 1e-3) is not None


def test_programs_draws_updates_and_uncertain_inputs_of_neighbourhoods(fitted):
    X, y = table(40, 1)
    program = fitted.predictor()
    mean, std = fitted.predict(X, return_std=True)
    told, _ = program(X, return_std=True)
    assert np.abs(told - mean).max() < 0.5 * std.max()
    assert "cell by cell" in program.distilled
    draws = fitted.sample_functions(20, random_state=0)(X)
    assert np.isfinite(draws).all()
    assert np.isfinite(fitted.sample_y(X[:5], 3)).all()
    covariance = fitted.predict(X[:4], return_cov=True)[1]
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), std[:4], rtol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > 0.0
    moments = fitted.predict_moments(X[:2], input_cov=0.01 * np.eye(2))
    assert np.isfinite(moments.mean).all()
    updated = copy.deepcopy(fitted)
    updated.update(X, y)
    assert updated.ensembles_[0].blocks[0].rows == 740


def test_the_method_follows_from_the_rows_and_can_be_chosen(monkeypatch):
    assert [chosen_method(None, N, Stack()) for N in (3000, 3001)] == [Exact(), Local()]
    assert isinstance(chosen_method(None, 2_000_000, Stack()), Sparse)
    assert chosen_method(Local(near=600), 50, Stack()) == Local(near=600)
    with pytest.raises(InputError, match="method='local' is for averages"):
        GPRegressor(method="local").fit(*table(20))
    with pytest.raises(InputError, match="near"):
        ManifoldGPRegressor(method=Local(cell=100, near=50)).fit(*table(20))
