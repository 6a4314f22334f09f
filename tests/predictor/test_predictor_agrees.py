"""The predictor gives what ``predict`` gives: every feature map with every kernel, means, warped targets, mixtures, several targets."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from drawn_estimators import FEATURES, KERNELS, D, drawn_estimator, drawn_pair, make_inputs, rounding
from manifoldgp import GPRegressor, means
from manifoldgp.errors import InputError
from manifoldgp.features import MLP, PCA, Nested
from manifoldgp.kernels import Additive, Linear, Matern32, OrthogonalAdditive, SquaredExponential
from manifoldgp.model import Model
from manifoldgp.predictor import Predictor
from manifoldgp.predictor.program import OUTPUTS
from manifoldgp.warping import TanhWarping

X = make_inputs(7, seed=1)


def assert_agrees(estimator, X=X, rtol=1e-10):
    """mean and std, of y and of f, for all rows at once and for one row."""
    p = estimator.predictor()
    mean_atol, variance_atol = rounding(estimator, X)
    for latent in (False, True):
        mean, std = estimator.predict(X, return_std=True, latent=latent)
        everything, first = p(X, return_std=True, latent=latent), p(X[:1], return_std=True, latent=latent)
        for found, expected in ((p(X, latent=latent), mean), (everything[0], mean), (first[0], mean[:1])):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=mean_atol)
        for found, expected in ((everything[1], std), (first[1], std[:1])):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found**2, expected**2, rtol=rtol, atol=variance_atol)
    return p


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_with_all_features(kernel):
    for name in FEATURES:
        for members in (1, 2):
            assert_agrees(drawn_pair(name, kernel, members))


@pytest.mark.parametrize("rows", [1, 64, 65, 700])
def test_rows_in_chunks_are_rows(rows):
    estimator = drawn_pair("mlp", "matern12", members=3)
    many = make_inputs(rows, seed=2)
    np.testing.assert_allclose(estimator.predictor()(many), estimator.predict(many), rtol=1e-10)


MEANS = {
    "constant": means.Constant(),
    "linear": means.Linear(),
    "linear on features": means.Linear(on="features"),
    "module": means.Module(nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))),
    "module on features": means.Module(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)), on="features"),
}


@pytest.mark.parametrize(("mean", "warping"), list(itertools.product(MEANS, [None, TanhWarping(2)])))
def test_means_and_warped_targets(mean, warping):
    settings = {} if warping is None else {"warping": warping}
    model = Model(features=MLP((3, 4)), mean=MEANS[mean], **settings)
    for members, factors in ((1, (1.0,)), (2, (0.5, 2.0))):
        assert_agrees(drawn_estimator([(model, members)], factors=factors), X=X[:2])


def test_mixtures_of_architectures_with_variance_factors():
    parts = [
        (Model(), 1),
        (Model(features=Nested(4, 2), kernel=SquaredExponential(scaled=False)), 3),
        (Model(features=MLP((6, 2))), 2),
    ]
    assert_agrees(drawn_estimator(parts, factors=(0.5, 1.0, 3.0)))


@pytest.mark.parametrize("parts", [1, 2])
def test_several_targets(parts):
    models = [(Model(features=MLP((6, 2))), 1), (Model(), 2)][:parts]
    assert assert_agrees(drawn_estimator(models, targets=3)).n_outputs == 3
    for targets in (1, 3):
        assert_agrees(drawn_estimator(models, targets=targets, factors=(0.5, 2.0)))
    assert assert_agrees(drawn_estimator(models, targets=1, flat=False))(X).shape == (7, 1)


def test_several_warped_targets():
    models = [(Model(features=MLP((6, 2)), warping=TanhWarping(2)), 1), (Model(warping=TanhWarping(2)), 2)]
    assert_agrees(drawn_estimator(models, targets=2), X=X[:2])


FOLLOWED = [(Model(), 1), (Model(features=Nested(4, 2)), 3), (Model(features=MLP((6, 2))), 2)]


@pytest.mark.parametrize("factors", [(1.0,), (0.5, 3.0)])
def test_weights_that_follow_how_sure_members_are(factors):
    for targets, exponents in ((1, (0.7,)), (3, (2.0, 0.0, 0.4))):
        p = assert_agrees(drawn_estimator(FOLLOWED, targets, factors, exponents=exponents))
        assert "certainty" in {i.operation for i in p.program.instructions}
    warped = [(Model(features=MLP((6, 2)), warping=TanhWarping(2)), 1), (Model(warping=TanhWarping(2)), 2)]
    for targets, exponents in ((1, (0.7,)), (2, (0.0, 1.5))):
        assert_agrees(drawn_estimator(warped, targets, factors, exponents=exponents), X=X[:2])
    assert_agrees(drawn_estimator([*FOLLOWED, *warped], factors=factors, exponents=(0.7,)), X=X[:2])


def test_weights_that_follow_nothing_take_no_operation():
    for exponents in ((), (0.0,)):
        p = drawn_estimator(FOLLOWED, exponents=exponents).predictor()
        assert {i.operation for i in p.program.instructions}.isdisjoint({"certainty", "certain_std"})
        assert "exponents" not in p.facts()["mixture"]


def assert_mixtures_agree(found, expected, rtol=1e-8):
    """found: what a predictor says. expected: what the model says."""
    y = expected.quantiles((0.02, 0.3, 0.9))
    np.testing.assert_allclose(found.quantiles((0.02, 0.3, 0.9)), y.numpy(), rtol=rtol)
    np.testing.assert_allclose(found.moments(), np.stack([part.numpy() for part in expected.moments()]), rtol=rtol)
    for place in (*y, y[0] - y[2], y[2] + 1.0):
        for name in ("log_density", "cdf", "crps"):
            theirs = getattr(expected, name)(place).numpy()
            np.testing.assert_allclose(getattr(found, name)(place.numpy()), theirs, rtol=rtol, atol=rtol, err_msg=name)


@pytest.mark.parametrize("exponents", [(), (0.7, 0.0)])
def test_mixtures_are_those_of_predict_with_known_noise_too(exponents):
    estimator = drawn_estimator(FOLLOWED, targets=2, factors=(0.5, 2.0), exponents=exponents)
    p, U = estimator.predictor(), torch.from_numpy(estimator.x_scaler_.apply(X))
    for known in (None, np.linspace(0.0, 9.0, len(X))):
        for ensemble, found in zip(estimator.ensembles_, p.mixtures(X, known), strict=True):
            noise = None if known is None else torch.from_numpy(known) / ensemble.scale**2
            assert found.warp is None
            assert_mixtures_agree(found, ensemble.predict(U, known_noise=noise))


WARPED = [(Model(features=MLP((6, 2)), warping=TanhWarping(2)), 2), (Model(warping=TanhWarping(3)), 3)]


@pytest.mark.parametrize("exponents", [(), (0.7, 1.5)])
@pytest.mark.parametrize("factors", [(1.0,), (1.0, 4.0, 0.25)])
def test_mixtures_of_warped_targets_are_those_of_predict(tmp_path, factors, exponents):
    """Members with warpings of their own, of several sizes, one without; of two targets one is not warped at all."""
    estimator = drawn_estimator([*WARPED, (Model(), 1)], targets=2, factors=factors, exponents=exponents)
    estimator.ensembles_[1] = drawn_estimator(FOLLOWED, targets=2, factors=factors, exponents=exponents).ensembles_[1]
    estimator.predictor().save(tmp_path / "warped.npz")
    U = torch.from_numpy(estimator.x_scaler_.apply(X))
    for p in (estimator.predictor(), Predictor.load(tmp_path / "warped.npz")):
        bent, plain = p.mixtures(X)
        assert plain.warp is None
        for ensemble, found in zip(estimator.ensembles_, (bent, plain), strict=True):
            assert_mixtures_agree(found, ensemble.predict(U))
    mean, std = p(X, return_std=True)
    np.testing.assert_allclose(bent.moments(), (mean[:, 0], std[:, 0] ** 2), rtol=1e-9)
    with pytest.raises(InputError, match="adds its noise to g"):
        p.mixtures(X, np.ones(len(X)))


def test_targets_with_variance_factors_of_their_own_have_mixtures():
    estimator = drawn_estimator(FOLLOWED, targets=2, factors=(1.0, 4.0))
    estimator.ensembles_[1] = drawn_estimator(FOLLOWED, targets=2, factors=(1.0, 0.25, 16.0)).ensembles_[1]
    U = torch.from_numpy(estimator.x_scaler_.apply(X))
    for ensemble, found in zip(estimator.ensembles_, estimator.predictor().mixtures(X), strict=True):
        assert_mixtures_agree(found, ensemble.predict(U))


def test_a_predictor_without_members_says_that_it_is_of_an_earlier_version():
    p = drawn_estimator(WARPED).predictor()
    earlier = Predictor.from_facts(p.program, p.facts() | {"mixture": None})
    np.testing.assert_array_equal(earlier(X, return_std=True), p(X, return_std=True))
    with pytest.raises(InputError, match="of an earlier version, which knew only the moments of warped targets"):
        earlier.mixtures(X)


def test_a_member_that_is_far_surer_than_others_has_all_the_weight():
    """Nothing overflows where powers of the variances would."""
    estimator = drawn_estimator(FOLLOWED, exponents=(8.0,))
    (ensemble,) = estimator.ensembles_
    for usual in ensemble.certainty.usual:
        usual[:] = torch.linspace(0.0, 300.0, len(usual))
    assert_agrees(estimator)


def test_members_that_agree_are_computed_once():
    estimator = drawn_estimator([(Model(features=PCA(2) >> MLP((4, 2))), 3)], targets=2)
    p = assert_agrees(estimator)
    layers = [i for i in p.program.instructions if i.operation == "affine"]
    assert len(layers) == 2  # the projection is part of the first layer, members and targets are one batch
    assert len([i for i in p.program.instructions if i.operation == "squared_exponential"]) == 1


def test_a_member_without_weight_is_dropped():
    estimator = drawn_estimator([(Model(), 1), (Model(features=MLP((3, 2))), 1)])
    (ensemble,) = estimator.ensembles_
    ensemble.log_weights[0][:], ensemble.log_weights[1][:] = -torch.inf, 0.0
    p = assert_agrees(estimator)
    assert {i.operation for i in p.program.needed(OUTPUTS)}.isdisjoint({"members", "mix", "mixture_std"})


@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-7])
def test_training_features_far_from_each_other_or_inputs_far_from_zero(spread):
    rng = np.random.default_rng(0)
    train, new = (rng.normal(size=(40, 2)) * spread + 1e3 for _ in range(2))
    y = np.sin(train[:, 0] / spread) + 0.1 * rng.normal(size=40)
    model = GPRegressor(restarts=1, max_iter=20).fit(train, y)
    np.testing.assert_allclose(model.predictor()(new), model.predict(new), rtol=1e-10, atol=1e-10)


def test_short_lengthscales_are_summed_from_differences():
    estimator = drawn_estimator([(Model(), 1)])
    estimator.ensembles_[0].blocks[0].values["kernel"]["lengthscale"][:] = 1e-3
    near = make_inputs(5, seed=0) + 1e-4  # so near to training rows that their covariance is not zero
    p = estimator.predictor()
    assert [i.settings["expand"] for i in p.program.instructions if "expand" in i.settings] == [False]
    np.testing.assert_allclose(p(near), estimator.predict(near), rtol=1e-9)


@pytest.mark.parametrize("kernel", [SquaredExponential(), Matern32(), Additive(), OrthogonalAdditive()], ids=repr)
def test_rows_with_an_equal_input_are_equal_whatever_its_length_scale(kernel):
    """Of a 0/1 column the shortest length-scale is as likely as any other far below one: equal values correlate, others do not."""
    estimator = drawn_estimator([(Model(kernel=kernel), 1)])
    block = estimator.ensembles_[0].blocks[0]
    block.values["kernel"]["lengthscale"][..., 1] = np.exp(-50.0)
    new = X.copy()
    new[:, 1] = np.arange(len(new)) % 2
    low, high = torch.as_tensor(estimator.x_scaler_.apply(new))[:2, 1]
    block.H[..., 1] = torch.where(block.H[..., 1] > 0, high, low)  # to the last digit, as the rows of a 0/1 column are
    np.testing.assert_allclose(estimator.predictor()(new), estimator.predict(new), rtol=1e-7)


def test_linear_kernel_alone_agrees_at_one_point_far_away():
    estimator = drawn_estimator([(Model(kernel=Linear()), 1)])
    assert_agrees(estimator, X=np.full((1, D), 1e4), rtol=1e-9)
