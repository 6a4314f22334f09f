"""Sparse networks: their prior, what is left of them, and models without the rest."""

import numpy as np
import pytest
import torch
from scipy import integrate

from manifoldgp import MLP, GroupSparse, ManifoldGPRegressor, Normal, Single, load
from manifoldgp._system.tensor_file import write
from manifoldgp.errors import FileFormatError, InputError
from manifoldgp.estimators.model_file import packed
from manifoldgp.features.sparsity import pruned, remaining
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Layout, Parameter, first_of, map_leaves, normal_law
from manifoldgp.training.held_parameters import _take_over
from manifoldgp.training.objective import TrainingObjective
from manifoldgp.training.optimizer import OptimizeResult


def matrix_layout(shape, prior):
    return Layout({"weight": Parameter(shape, normal_law(shape), prior=prior)})


def drawn_values(network, D, members, seed=0):
    X = torch.randn(40, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return X, Layout(network.parameters(X)).draw(torch.Generator().manual_seed(seed + 1), members)


def test_a_group_has_a_density():
    layout = matrix_layout((1, 1), GroupSparse(0.5))
    density = lambda w: float((-layout.negative_log_prior(torch.tensor([w], dtype=torch.float64))).exp())  # noqa: E731
    half = integrate.quad(density, 0.0, 1.0)[0] + integrate.quad(density, 1.0, np.inf)[0]
    assert 2 * half == pytest.approx(1.0, abs=0.02)  # the rounded point adds about 1 %


def test_groups_are_rows_and_on_request_columns():
    W = torch.tensor([[3.0, 0.0, 4.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    off = float(matrix_layout((2, 3), GroupSparse(0.5)).negative_log_prior(torch.zeros(6, dtype=torch.float64)))
    rows = float(matrix_layout((2, 3), GroupSparse(0.5)).negative_log_prior(W.reshape(-1)))
    assert rows - off == pytest.approx(4 * np.log1p(5.0 / 0.5), rel=1e-2)
    both, none = (
        float(matrix_layout((2, 3), GroupSparse(0.5, columns=True)).negative_log_prior(w.reshape(-1))) for w in (W, 0 * W)
    )
    assert both - none - (rows - off) == pytest.approx(3 * np.log1p(3.0 / 0.5) + 3 * np.log1p(4.0 / 0.5), rel=1e-2)


@pytest.mark.parametrize("network", [MLP((4, 2), sparsity=0.05), MLP((5, 4, 2), rank=2, sparsity=0.2)])
def test_the_objective_has_the_gradient_of_autograd(network):
    X = torch.randn(30, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    model, data = Model(network), Data(X, torch.sin(2 * X[:, 0]))
    layout, drawn = model.draw(data, torch.Generator().manual_seed(1), 3)
    objective = TrainingObjective(model, layout, first_of(layout.constants(drawn)), data)
    theta, rows = layout.flatten(drawn).numpy(), np.arange(3)
    theta[1, layout.slices["features.0.left" if network.rank else "features.0.weight"]] *= 1e-3  # near the point of the prior
    for ours, expected in zip(objective(theta, rows), objective.differentiate(theta, rows), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-8, atol=1e-8)


def test_length_scales_are_held_unless_the_user_says_how():
    X = torch.randn(10, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    data = Data(X, X[:, 0])

    def prior_of(model):
        return model.draw(data, torch.Generator().manual_seed(1), 1)[0].parameters["kernel.lengthscale"].prior

    own = Normal(1.0, 2.0)
    assert prior_of(Model(MLP((3, 2)))) is None
    assert prior_of(Model(MLP((3, 2), sparsity=0.05))) is not None
    assert prior_of(Model(MLP((3, 2), sparsity=0.05), priors={"kernel.lengthscale": own})) == own


@pytest.mark.parametrize("rank", [None, 2])
def test_a_pruned_network_computes_the_same(rank):
    network = MLP((5, 4, 3), rank=rank, sparsity=0.05)
    X, values = drawn_values(network, 4, members=2)
    out, into = ("left", "right") if rank else ("weight", "weight")
    values["0"][out][:, 2] = 0.0  # an input that nobody uses
    values["0"][out][0, 1] = 0.0  # one that the first member does not use
    values["1"][out][0, [0, 3]] = 0.0  # hidden units, others in each member
    values["1"][out][1, 4] = 0.0
    values["2"][into][:, :, 1] = 0.0  # a feature
    left = remaining(network, values)
    assert left.inputs.tolist() == [[True, False, False, True], [True, True, False, True]]
    assert [unit.sum(-1).tolist() for unit in left.units] == [[3, 4], [4, 4], [2, 2]]
    smaller, kept, inputs, features = pruned(network, values, left, features=True)
    assert smaller.sizes == (4, 4, 2)
    assert inputs.tolist() == [0, 1, 3]
    assert features.tolist() == [[0, 2], [0, 2]]
    expected = {n: tuple(p.shape) for n, p in Layout(smaller.parameters(X[:, inputs])).parameters.items()}
    found = Layout(map_leaves(lambda v: Parameter(tuple(v.shape[1:]), normal_law(tuple(v.shape[1:]))), kept)).parameters
    assert {n: p.shape for n, p in found.items()} == expected
    np.testing.assert_allclose(smaller(kept, X[:, inputs]), network(values, X)[..., [0, 2]], rtol=1e-12, atol=1e-12)


def test_something_always_remains():
    network = MLP((3, 2), sparsity=0.05)
    _, values = drawn_values(network, 4, members=1)
    left = remaining(network, map_leaves(lambda leaf: 1e-6 * leaf, values))
    assert [int(part.sum()) for part in (left.inputs, *left.units)] == [1, 1, 1]


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6))
    y = np.tanh(3 * X[:, 4]) + 0.1 * rng.normal(size=80)
    model = ManifoldGPRegressor(MLP((3, 2), sparsity=0.05), averaging=Single(restarts=4, max_iter=150), random_state=0)
    return model.fit(X, y), rng.normal(size=(50, 6))


def test_inputs_that_are_switched_off_are_named(fitted):
    model, _ = fitted
    off = model.pruned().switched_off_.tolist()
    assert off  # five of the six inputs have nothing to do with y
    assert 4 not in off
    said = model.diagnose()
    assert said.numbers["inputs that remain"] == 6 - len(off)
    assert any(f"switched off: {', '.join(map(str, off))}." in remark for remark in said.remarks)


def test_a_pruned_model_predicts_the_same_and_holds_less(fitted, tmp_path):
    model, X = fitted
    small = model.pruned()
    for ours, expected in zip(small.predict(X, return_std=True), model.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-6)
    off = small.switched_off_.tolist()
    assert small.ensembles_[0].blocks[0].data.X.shape == (80, 6 - len(off))
    assert any(f"switched off: {', '.join(map(str, off))}." in remark for remark in small.diagnose().remarks)
    for estimator, name in ((model, "whole"), (small, "small")):
        estimator.save(tmp_path / name)
    assert (tmp_path / "small").stat().st_size < (tmp_path / "whole").stat().st_size
    loaded = load(tmp_path / "small")
    np.testing.assert_array_equal(loaded.predict(X), small.predict(X))
    assert loaded.switched_off_.tolist() == off
    np.testing.assert_allclose(small.predictor()(X), small.predict(X), rtol=0, atol=1e-10)


def test_values_in_columns_that_are_off_do_not_matter_any_more(fitted):
    model, X = fitted
    small, other = model.pruned(), X.copy()
    other[:, small.switched_off_] = 1e6
    np.testing.assert_array_equal(small.predict(other), small.predict(X))


def test_a_forged_list_of_columns_is_refused(fitted, tmp_path):
    header, tensors = packed(fitted[0].pruned())
    write(tmp_path / "forged", header | {"switched_off": [4]}, tensors)
    with pytest.raises(FileFormatError, match="columns that are switched off"):
        load(tmp_path / "forged")


def test_what_cannot_be_is_refused():
    X = np.linspace(-1, 1, 12)[:, None]
    plain = ManifoldGPRegressor((2, 1), averaging=Single(restarts=1, max_iter=2)).fit(X, X[:, 0])
    with pytest.raises(InputError, match="nothing to prune"):
        plain.pruned()
    with pytest.raises(InputError, match="needs a matrix of weights"):
        Parameter((3,), normal_law((3,)), prior=GroupSparse())
    with pytest.raises(InputError, match="The sparsity of an MLP must be a positive number"):
        MLP((3, 2), sparsity=0.0)


def test_a_start_that_loses_by_what_is_switched_off_stays_as_it_was():
    def at(values):
        R = len(values)
        status, counts = np.array(["converged"] * R, dtype=object), np.ones(R, dtype=int)
        theta = np.arange(R)[:, None] + np.array(values)[:, None]
        return OptimizeResult(theta, np.array(values), np.zeros((R, 1)), status, counts, counts.copy(), [[v] for v in values])

    before = at([0.0, 0.0])
    taken = _take_over(before, at([0.5, 5.0]), np.array([0, 1]))  # nats; small losses are forgiven
    assert taken.tolist() == [0]
    assert before.value.tolist() == [0.5, 0.0]
    assert before.theta[:, 0].tolist() == [0.5, 1.0]


def test_a_mean_of_the_inputs_keeps_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    model = ManifoldGPRegressor(MLP((4, 2), sparsity=0.3), mean="linear", averaging=Single(restarts=1, max_iter=40))
    model.fit(X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=40))
    np.testing.assert_allclose(model.pruned().predict(X), model.predict(X), atol=1e-8)


def test_a_stopped_fit_is_pruned_of_nothing_that_counts():
    rng = np.random.default_rng(0)
    X, rounds = rng.normal(size=(40, 4)), []
    model = ManifoldGPRegressor(
        MLP((4, 2), sparsity=0.3), averaging=Single(restarts=1), callback=lambda *_: rounds.append(0) or len(rounds) > 30
    ).fit(X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=40))
    np.testing.assert_allclose(model.pruned().predict(X), model.predict(X), atol=1e-8)
