"""What every feature map must do, checked over a list of all of them."""

import copy
import dataclasses
import itertools
import json
import pickle

import pytest
import torch
from sklearn.decomposition import FastICA
from sklearn.manifold import Isomap
from torch import nn

from manifoldgp.errors import InputError
from manifoldgp.estimators.descriptions import describe
from manifoldgp.features import (
    MLP,
    PCA,
    AutoEncoder,
    Chain,
    Circle,
    Concatenate,
    FixedLinear,
    Identity,
    Kumaraswamy,
    Linear,
    Module,
    RandomEmbedding,
    Residual,
    Transformer,
)
from manifoldgp.parameters import Layout, leaves, map_leaves, nest

N, D = 40, 3


def make_inputs(rows=N, seed=0):
    return torch.randn((rows, D), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def small_network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(D, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 2))


# name: (features, number of features Q)
CASES = {
    "identity": (Identity(), D),
    "linear": (Linear(2), 2),
    "linear-bias": (Linear(2, bias=True), 2),
    "fixed-linear": (FixedLinear(((1.0, 2.0), (0.5, -1.0), (0.0, 3.0)), (0.1, 0.2)), 2),
    "pca": (PCA(2), 2),
    "pca-unwhitened": (PCA(3, whiten=False), 3),
    "random-embedding": (RandomEmbedding(4), 4),
    "mlp": (MLP((6, 2)), 2),
    "mlp-mixed": (MLP((4, 5, 2), ("sine", "softplus", "identity")), 2),
    "mlp-tanh": (MLP((5, 3), "tanh"), 3),
    "mlp-pretrained": (MLP((4, 2), "tanh").pretrained(steps=9), 2),
    "auto-encoder": (AutoEncoder((4, 2), noise=0.1, steps=9), 2),
    "auto-encoder-chain": (AutoEncoder((3,), steps=9) >> MLP((4, 2)), 2),
    "mlp-low-rank": (MLP((6, 4, 1), "sigmoid", rank=2), 1),
    "warping": (Kumaraswamy(), D),
    "circle": (Circle((1,), 2.5), D + 1),
    "circles": (Circle(), 2 * D),
    "concatenate": (Concatenate(Identity(), MLP((4, 2))), D + 2),
    "chain": (PCA(2) >> MLP((4, 2)), 2),
    "chain-warped": (Chain(Kumaraswamy(), Linear(2), MLP((3, 1))), 1),
    "residual": (Residual(MLP((4, D), "tanh")), D),
    "nested": (Concatenate(Residual(Linear(D)), PCA(1) >> MLP((2,))), D + 2),
    "module": (Module(small_network()), 2),
    "module-loop": (Module(small_network(), batching="loop"), 2),
    "transformer-affine": (Transformer(FastICA(2, random_state=0)), 2),
    "transformer-curved": (Transformer(Isomap(n_neighbors=5, n_components=2)), 2),
    "transformer-chain": (Isomap(n_neighbors=5, n_components=2) >> MLP((3, 2)), 2),
}
SAME_AT_EVERY_START = {("linear-bias", "bias")} | {  # zero, and what LayerNorm resets to
    (module, leaf) for module in ("module", "module-loop") for leaf in ("2.weight", "2.bias")
}
NOT_DIFFERENTIABLE_IN_X = {"transformer-curved", "transformer-chain"}

every_features = pytest.mark.parametrize("name", CASES)


def prepare(name, count=6, seed=0):
    """Bound features, layout, and ``count`` starting values."""
    features = CASES[name][0].bind(make_inputs())
    layout = Layout(features.parameters(make_inputs()))
    return features, layout, layout.draw(torch.Generator().manual_seed(seed), count)


@every_features
@pytest.mark.parametrize("batch", [(), (1,), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("input_batch", ["shared", "same", "crossed"])
def test_a_batch_equals_single_calls(name, batch, input_batch):
    features, _, drawn = prepare(name, count=max(1, torch.Size(batch).numel()))
    values = map_leaves(lambda v: v.reshape(*batch, *v.shape[1:]), drawn)
    X_batch = {"shared": (), "same": batch, "crossed": (2, *(1 for _ in batch))}[input_batch]
    X = make_inputs(5 * torch.Size(X_batch).numel(), seed=1).reshape(*X_batch, 5, D)
    H = features(values, X)
    has_parameters = bool(dict(leaves(values)))
    full = torch.broadcast_shapes(batch if has_parameters else (), X_batch)
    assert H.shape == (*full, 5, CASES[name][1])
    assert H.dtype == torch.float64
    for index in itertools.product(*map(range, full)):
        one = nest({n: v.expand(*full, *v.shape[len(batch) :])[index] for n, v in leaves(values)})
        expected = features(one, X.expand(*full, 5, D)[index])
        torch.testing.assert_close(H[index], expected, rtol=1e-11, atol=1e-12)


@every_features
def test_first_and_second_derivatives_match_finite_differences(name):
    features, layout, drawn = prepare(name, count=2)
    constants = layout.constants(drawn)
    theta = layout.flatten(drawn).requires_grad_() if layout.size else torch.zeros(2, 0, dtype=torch.float64)
    X = (1.5 * make_inputs(3, seed=2)).requires_grad_(name not in NOT_DIFFERENTIABLE_IN_X)

    def compute(theta, X):
        return features(layout.unflatten(theta, constants) if layout.size else constants, X)

    if layout.size or X.requires_grad:
        assert torch.autograd.gradcheck(compute, (theta, X), atol=1e-6, rtol=1e-5)
        if name not in ("identity", "transformer-curved"):  # constant gradients have nothing to differentiate
            assert torch.autograd.gradgradcheck(compute, (theta, X), atol=1e-5, rtol=1e-4)


@every_features
def test_the_gradient_reaches_each_named_parameter(name):
    features, layout, drawn = prepare(name, count=2)
    values = nest({n: v.requires_grad_() if layout.parameters[n].trainable else v for n, v in leaves(drawn)})
    H = features(values, make_inputs())
    weights = make_inputs(H.numel() // D + 1, seed=3).reshape(-1)[: H.numel()].reshape(H.shape)
    if layout.names:
        (weights * H**2).sum().backward()
    for leaf_name, value in leaves(values):
        if layout.parameters[leaf_name].trainable:
            for start in value.grad:
                assert start.abs().max() > 1e-12, leaf_name


@every_features
def test_starting_values_follow_the_generator(name):
    _, layout, first = prepare(name, seed=7)
    _, _, again = prepare(name, seed=7)
    _, _, other = prepare(name, seed=8)
    repeated = layout.draw(torch.Generator().manual_seed(7), 6)
    for (leaf_name, a), (_, b), (_, c), (_, d) in zip(*map(leaves, (first, again, other, repeated)), strict=True):
        parameter = layout.parameters[leaf_name]
        assert a.shape == (6, *parameter.shape)
        assert torch.isfinite(a).all()
        torch.testing.assert_close(a, b, rtol=0, atol=0)
        torch.testing.assert_close(a, d, rtol=0, atol=0)
        if parameter.trainable and (name, leaf_name) not in SAME_AT_EVERY_START:
            assert not torch.equal(a, c)
            assert not torch.equal(a[1], a[2])
        if not parameter.trainable:
            assert torch.equal(a, c)
            assert torch.equal(a[0], a[5])


@every_features
def test_descriptions_are_frozen_and_compare_copy_print_and_pickle(name):
    features = CASES[name][0]
    assert copy.deepcopy(features) == features
    assert hash(copy.deepcopy(features)) == hash(features)
    assert pickle.loads(pickle.dumps(features)) == features
    assert features != Linear(7)
    assert repr(features).startswith(type(features).__name__ + "(")
    rebuilt = type(features)(**{f.name: getattr(features, f.name) for f in dataclasses.fields(features)})
    assert rebuilt == features
    for field in dataclasses.fields(features)[:1]:
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field"):
            setattr(features, field.name, None)


@every_features
def test_binding_twice_changes_nothing_and_copies_compute_the_same(name):
    features, _, drawn = prepare(name)
    X = make_inputs(7, seed=4)
    H = features(drawn, X)
    for other in (features.bind(make_inputs()), copy.deepcopy(features), pickle.loads(pickle.dumps(features))):
        torch.testing.assert_close(other(drawn, X), H, rtol=1e-12, atol=1e-12)


@every_features
def test_only_a_fitted_transformer_needs_pickle(name):
    bound = CASES[name][0].bind(make_inputs())
    if name in {"transformer-curved", "transformer-chain"}:
        with pytest.raises(InputError, match="only pickle can store"):
            describe(bound)
    else:
        json.dumps(describe(bound))


@every_features
def test_each_row_is_mapped_by_itself(name):
    features, _, drawn = prepare(name)
    X = make_inputs(6, seed=5)
    torch.testing.assert_close(features(drawn, X)[..., 2:4, :], features(drawn, X[2:4]), rtol=1e-10, atol=1e-11)
