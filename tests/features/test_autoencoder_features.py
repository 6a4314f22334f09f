"""Features that are learnt from inputs alone: what an auto-encoder finds, and networks that start as one."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from manifoldgp import ManifoldGPRegressor, Single
from manifoldgp.averaging.single import member_values
from manifoldgp.errors import InputError
from manifoldgp.features import MLP, AutoEncoder
from manifoldgp.features.autoencoder import _PATIENCE, Pretrained, _Best
from manifoldgp.features.minibatches import minimised
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Layout, first_of, leaves, map_leaves
from manifoldgp.training.objective import TrainingObjective


def on_a_plane(rows=300, seed=0):
    """Six columns that vary in two directions, and a little in all."""
    rng = np.random.default_rng(seed)
    latent = rng.standard_normal((rows, 2))
    X = latent @ rng.standard_normal((2, 6)) + 0.02 * rng.standard_normal((rows, 6))
    return torch.from_numpy((X - X.mean(0)) / X.std(0)), latent


def values_of(features, X, count=1):
    return Layout(features.parameters(X)).draw(torch.Generator().manual_seed(0), count)


def share_explained(H, target):
    """R² of a linear regression on H."""
    A = np.column_stack([H, np.ones(len(H))])
    residual = target - A @ np.linalg.lstsq(A, target, rcond=None)[0]
    return 1.0 - residual.var() / target.var()


def test_the_code_keeps_what_the_inputs_vary_by_and_says_so_of_new_rows():
    X, latent = on_a_plane()
    features = AutoEncoder((2,), steps=400).bind(X[:200])
    H = features(first_of(values_of(features, X)), X)
    assert share_explained(H[200:].numpy(), latent[200:]) > 0.95
    untrained = MLP((2,), "identity")
    narrow = AutoEncoder((1,), steps=400).bind(X[:200])
    assert share_explained(narrow(first_of(values_of(narrow, X)), X)[200:].numpy(), latent[200:]) < 0.95  # one feature cannot
    assert features.encoder == MLP((2,), ("identity",)) != untrained


def test_noise_steps_and_seed_decide_and_the_global_generator_does_not():
    X, _ = on_a_plane(60)
    state = torch.random.get_rng_state()
    found = {}
    for name, settings in {"one": {}, "seed": {"seed": 1}, "noise": {"noise": 0.5}, "steps": {"steps": 30}}.items():
        found[name] = AutoEncoder((3, 2), **{"steps": 20, **settings}).bind(X).learnt
    again = AutoEncoder((3, 2), steps=20).bind(X).learnt
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(leaves(found["one"]), leaves(again), strict=True))
    for name in ("seed", "noise", "steps"):
        assert not torch.equal(found[name]["0"]["weight"], again["0"]["weight"]), name


def test_learning_stops_when_held_out_rows_are_not_given_back_any_better():
    errors = [3.0, 2.0, 1.0] + [5.0] * 40
    course = iter(errors)
    best = _Best(lambda values: next(course), steps=50)
    stopped = [step for step in range(1, 44) if best(step, {"step": torch.tensor(step)})]
    assert stopped[0] == 3 + _PATIENCE
    assert int(best.values["step"]) == 3


def test_errors_that_are_no_numbers_still_leave_values():
    best = _Best(lambda values: float("nan"), steps=50)
    assert not best(1, {"step": torch.tensor(1)})
    assert int(best.values["step"]) == 1


def test_any_number_is_better_than_none():
    course = iter([float("nan"), 3.0, float("nan"), 4.0])
    best = _Best(lambda values: next(course), steps=50)
    for step in range(1, 5):
        best(step, {"step": torch.tensor(step)})
    assert int(best.values["step"]) == 2


def test_minibatches_are_drawn_where_their_generator_is(monkeypatch):
    generator, asked = SimpleNamespace(device="cpu, say"), []  # and the values on a GPU
    monkeypatch.setattr(torch, "randint", lambda *size, generator, device: asked.append(device) or torch.zeros(2).long())
    minimised(
        {"a": torch.zeros(2)}, lambda values, chosen: values["a"][chosen].sum(), 10, 1, generator, lambda step, values: True
    )
    assert asked == [generator.device]


def test_whoever_computes_in_double_precision_can_learn_from_noisy_inputs():
    X, _ = on_a_plane(30)
    expected = AutoEncoder((3, 1), noise=0.5, steps=5).bind(X).learnt
    torch.set_default_dtype(torch.float64)
    try:
        found = AutoEncoder((3, 1), noise=0.5, steps=5).bind(X).learnt
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(leaves(found), leaves(expected), strict=True))


def test_few_rows_are_enough():
    X, _ = on_a_plane(4)
    features = AutoEncoder((3, 1), steps=5).bind(X)
    assert torch.isfinite(features(first_of(values_of(features, X)), X)).all()


def test_a_pretrained_network_starts_as_the_encoder_and_others_near_it():
    X, _ = on_a_plane(80)
    network = MLP((5, 2), ("tanh", "identity"))
    bound = network.pretrained(noise=0.1, steps=40, seed=3).bind(X)
    encoder = AutoEncoder((5, 2), noise=0.1, steps=40, seed=3).bind(X)
    drawn = values_of(bound, X, count=3)
    assert Layout(bound.parameters(X)).names == Layout(network.parameters(X)).names
    assert Layout(encoder.parameters(X)).size == 0
    for (_, start), (_, fixed) in zip(leaves(drawn), leaves(encoder.learnt), strict=True):
        torch.testing.assert_close(start[0], fixed, rtol=0, atol=0)
        distance = (start[1:] - fixed).square().mean((1, *range(2, start.ndim))).sqrt() / fixed.square().mean().sqrt()
        assert (distance > 0.02).all()
        assert (distance < 0.3).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: AutoEncoder(()), "at least one layer"),
        (lambda: AutoEncoder((2,), noise=-1.0), r"The noise of AutoEncoder \(0 for none\) must be a positive number"),
        (lambda: AutoEncoder((2,), activation="step"), "Unknown activation 'step'"),
        (lambda: AutoEncoder((4, 2), activation=("tanh",)), "2 layers and 1 activations"),
        (lambda: AutoEncoder((2,), steps=0), "The steps of AutoEncoder must be a positive integer"),
        (lambda: AutoEncoder((2,), seed=0.5), "The seed of AutoEncoder must be an integer"),
        (lambda: MLP((2,)).pretrained(noise="much"), "The noise of Pretrained"),
        (lambda: Pretrained((2,)), "Pretrained needs an MLP"),
        (lambda: MLP((2,), sparsity=0.05).pretrained(), "sparsity=0.05 has no place in Pretrained"),
        (lambda: MLP((2,), sparsity=0.05).guided(), "sparsity=0.05 has no place in Guided"),
    ],
)
def test_settings_are_checked(wrong, message):
    with pytest.raises(InputError, match=message):
        wrong()


def test_only_what_sees_all_rows_says_that_it_uses_rows_without_targets():
    encoder, network = AutoEncoder((2,)), MLP((2,))
    assert encoder.uses_unlabelled
    assert (encoder >> network).uses_unlabelled
    assert network.pretrained().uses_unlabelled
    assert not network.uses_unlabelled
    assert not (network >> encoder).uses_unlabelled


def guided_problem(**more):
    X, latent = on_a_plane(30)
    data = Data(X, torch.from_numpy(np.sin(latent[:, 0])), **more)
    model = Model(features=MLP((4, 2), "tanh").guided(0.7))
    layout, drawn = model.draw(data, torch.Generator().manual_seed(0), 2)
    return model, data, layout, drawn


def test_guidance_adds_the_reconstruction_to_the_evidence_and_nothing_to_the_prediction():
    model, data, layout, drawn = guided_problem()
    theta = layout.flatten(drawn).numpy()
    objective = TrainingObjective(model, layout, {}, data)
    network, decoder = MLP((4, 2), "tanh"), MLP((4, 6), ("tanh", "identity"))
    plain = replace(model, features=network)
    for r in range(2):
        values = map_leaves(lambda leaf, r=r: leaf[r], drawn)
        parts = values["features"]
        H = network(parts["network"], data.X)
        torch.testing.assert_close(model.features_at(values, data.X), H)
        lost = 0.35 * ((decoder(parts["decoder"], H) - data.X) ** 2).sum() / 6
        expected = plain.nlml({**values, "features": parts["network"]}, data) + lost
        assert objective(theta[r : r + 1], np.array([r]))[0][0] == pytest.approx(float(expected), rel=1e-10)
    objective.refuse_disconnected(theta)  # the decoder is trained, though the kernel does not see it


def test_rows_that_do_not_take_part_are_not_given_back():
    mask = torch.ones(30, dtype=torch.float64)
    mask[20:] = 0.0
    model, data, _, drawn = guided_problem(mask=mask)
    torch.testing.assert_close(model.penalty(drawn, data), model.penalty(drawn, Data(data.X[:20], data.y[:20])))


def test_a_guided_fit_tells_its_evidence_apart_and_keeps_more_of_the_inputs():
    X, latent = on_a_plane(40)
    y = np.sin(latent[:, 0])
    fits = {
        w: ManifoldGPRegressor(MLP((4, 2), "tanh").guided(w), averaging=Single(1, max_iter=60)).fit(X, y) for w in (1e-6, 100.0)
    }
    kept = {w: share_explained(model.transform(X), X.numpy()) for w, model in fits.items()}
    assert kept[100.0] > kept[1e-6]
    for model in fits.values():
        (start,) = model.starts_
        assert start["nlml"] == pytest.approx(float(model.ensembles_[0].blocks[0].nlml()[0]) + 40 * np.log(y.std()), rel=1e-6)
        assert start["objective"] > start["nlml"]


def test_guidance_is_for_exact_models():
    X, latent = on_a_plane(40)
    with pytest.raises(InputError, match="needs method='exact': the sparse bound has no place"):
        ManifoldGPRegressor(MLP((4, 2)).guided(), method="sparse", averaging="single").fit(X, latent[:, 0])
    with pytest.raises(InputError, match="The weight of Guided must be a positive number"):
        MLP((4, 2)).guided(0.0)


@pytest.mark.parametrize("spread", [0.2, None])
def test_a_prior_holds_a_pretrained_network_near_its_encoder(spread):
    X, _ = on_a_plane(50)
    bound = MLP((3, 2), "tanh").pretrained(spread=spread, steps=20).bind(X)
    layout = Layout(bound.parameters(X))
    theta = layout.flatten(values_of(bound, X, count=2))
    if spread is None:
        assert not layout.has_priors
        return
    expected = torch.zeros(2, dtype=torch.float64)
    for name, centre in leaves(bound.learnt):
        law = torch.distributions.Normal(centre, spread * centre.square().mean().sqrt())
        expected -= law.log_prob(theta[:, layout.slices[name]].reshape(2, *centre.shape)).flatten(1).sum(1)
    torch.testing.assert_close(layout.negative_log_prior(theta), expected, rtol=1e-10, atol=0)
    assert expected[0] < expected[1]  # the first start is the encoder itself
    with pytest.raises(InputError, match="The spread of Pretrained"):
        MLP((3, 2)).pretrained(spread=0.0)


def few_turned_rows(rows=40):
    X, latent = on_a_plane(rows)
    return X.numpy(), np.sin(latent[:, 0]) + 0.3 * np.random.default_rng(1).standard_normal(rows)


def trained_values(model):
    """The named values of the start that predicts."""
    return dict(leaves(member_values(model, 0)))


def test_kernel_and_noise_are_those_of_the_code_and_the_network_is_tuned_after_them():
    X, y = few_turned_rows()
    network, settings = MLP((8, 2), ("tanh", "identity")), {"steps": 100, "seed": 1}

    def fitted(features, **averaging):
        return ManifoldGPRegressor(features, averaging=Single(restarts=1, **averaging), random_state=0).fit(X, y)

    two_stages = fitted(AutoEncoder((8, 2), **settings))
    tuned = fitted(network.pretrained(**settings))
    code, mine = trained_values(two_stages), trained_values(tuned)
    for name in ("kernel.lengthscale", "kernel.variance", "noise.scale"):
        np.testing.assert_allclose(mine[name], code[name], rtol=1e-3)
    assert tuned.nlml_ < two_stages.nlml_ - 0.1  # the network has moved, to where it explains the targets better
    free = fitted(network.pretrained(spread=None, **settings))
    assert trained_values(free)["noise.scale"] < 0.5 * mine["noise.scale"]  # all together: without noise


def test_a_start_that_goes_on_keeps_kernel_and_noise():
    X, y = few_turned_rows()
    model = ManifoldGPRegressor(MLP((4, 2)).pretrained(steps=50), averaging=Single(restarts=2, max_iter=20), random_state=0)
    first = model.fit(X, y)
    on = ManifoldGPRegressor(first.features, averaging=Single(restarts=1, warm_start_from=first), random_state=0).fit(X, y)
    np.testing.assert_allclose(trained_values(on)["noise.scale"], trained_values(first)["noise.scale"], rtol=1e-12)
    assert on.starts_["objective"].min() <= first.starts_["objective"].min()


def test_iterations_of_both_steps_are_counted_and_whoever_watches_can_stop_either():
    X, y = few_turned_rows()
    for most in (4, 15):
        seen = []
        model = ManifoldGPRegressor(
            MLP((4, 2)).pretrained(steps=20), averaging=Single(restarts=2, max_iter=20),
            callback=lambda *where, seen=seen, most=most: seen.append(where) or len(seen) >= most, random_state=0,
        )  # fmt: skip
        model.fit(X, y)
        assert len(seen) == most
        assert (model.starts_["iterations"] <= 20).all()
        assert "stopped by callback" in model.starts_["status"]
    whole = ManifoldGPRegressor(MLP((4, 2)).pretrained(steps=20), averaging=Single(restarts=2, max_iter=20), random_state=0).fit(
        X, y
    )
    assert (whole.starts_["iterations"] <= 20).all()
    assert whole.starts_["iterations"].max() > 10  # the first step has half of them
