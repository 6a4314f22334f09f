"""Any torch.nn.Module as features."""

import copy

import pytest
import torch
from torch import nn

from manifoldgp.errors import InputError
from manifoldgp.features import Chain, Module
from manifoldgp.parameters import Layout, leaves, map_leaves

X = torch.randn((20, 3), generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def seeded_module(make, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


class Custom(nn.Module):
    """A frozen layer, a free tensor that no reset reaches, a zero, a buffer, an integer buffer, a scalar, and one unused."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.free = nn.Parameter(torch.full((4, 2), 2.0))
        self.zero = nn.Parameter(torch.zeros(2))
        self.scalar = nn.Parameter(torch.tensor(1.5))
        self.unused = nn.Parameter(torch.ones(3))
        self.register_buffer("shift", torch.tensor([0.5, -0.5]))
        self.register_buffer("order", torch.tensor([1, 0]))

    def forward(self, X):
        H = self.frozen(torch.tanh(self.first(X))) @ self.free
        return self.scalar * (H + self.zero + self.shift)[:, self.order]


class BranchesOnData(nn.Module):
    """vmap cannot do this."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, X):
        H = self.linear(X)
        return H if float(self.linear.weight.detach().sum()) > -1e9 else -H


def draw(features, count=4, seed=0):
    return Layout(features.parameters(X)).draw(torch.Generator().manual_seed(seed), count)


def test_names_shapes_and_what_is_trained_follow_the_module():
    tree = Module(seeded_module(Custom)).parameters(X)
    named = dict(leaves(tree))
    trained = {name for name, p in named.items() if p.trainable}
    assert trained == {"first.weight", "first.bias", "free", "zero", "scalar", "unused"}
    assert set(named) - trained == {"frozen.weight", "frozen.bias", "shift", "order"}
    assert named["scalar"].shape == ()
    assert named["first.weight"].shape == (4, 3)


def test_the_first_start_is_the_module_itself_in_double_precision():
    module = seeded_module(Custom)
    features = Module(module).bind(X)
    H = features(map_leaves(lambda v: v[0], draw(features)), X)
    torch.testing.assert_close(H, copy.deepcopy(module).double()(X), rtol=1e-12, atol=1e-12)
    assert H.dtype == torch.float64


def test_other_starts_are_reset_or_scattered():
    module = seeded_module(Custom)
    values = dict(leaves(draw(Module(module), count=400)))
    weight = values["first.weight"]
    assert weight[1:].abs().max() <= 3**-0.5 + 1e-12  # nn.Linear draws from U(-1/sqrt(D), 1/sqrt(D))
    assert weight[1:].std() == pytest.approx(3**-0.5 / 3**0.5, rel=0.05)
    assert values["free"][1:].mean() == pytest.approx(2.0, rel=0.02)
    assert (values["free"][1:] - 2).std() == pytest.approx(0.2, rel=0.05)
    assert values["zero"][1:].std() == pytest.approx(0.1, rel=0.1)
    for name in ("frozen.weight", "shift", "order"):
        assert torch.equal(values[name], values[name][:1].expand_as(values[name]))
    jittered = dict(leaves(draw(Module(module, restarts="jitter"), count=400)))["first.weight"]
    own = module.first.weight.detach().double()
    assert (jittered[1:] - own).std() == pytest.approx(0.1 * float(own.square().mean().sqrt()), rel=0.05)


def test_the_outermost_reset_wins():
    class Careful(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def reset_parameters(self):
            nn.init.constant_(self.linear.weight, 7.0)

        def forward(self, X):
            return self.linear(X)

    values = draw(Module(Careful()))
    assert (values["linear"]["weight"][1:] == 7).all()
    assert not torch.equal(values["linear"]["bias"][1], values["linear"]["bias"][2])


def test_neither_the_module_nor_the_global_generator_is_touched():
    module = seeded_module(Custom)
    before, state = copy.deepcopy(module.state_dict()), torch.random.get_rng_state()
    features = Module(module).bind(X)
    values = draw(features)
    values["free"].requires_grad_()
    features(values, X).sum().backward()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert all(p.grad is None and p.dtype == torch.float32 for p in module.parameters())


def test_bound_features_no_longer_follow_the_users_module():
    module = seeded_module(lambda: nn.Linear(3, 2))
    features = Module(module)
    bound = features.bind(X)
    with torch.no_grad():
        module.weight.zero_()
    assert bound.module.weight.abs().max() > 0
    assert features == Module(module)
    assert bound != features


def test_an_unused_parameter_gets_no_gradient_and_a_frozen_one_none_at_all():
    features = Module(seeded_module(Custom)).bind(X)
    layout = Layout(features.parameters(X))
    drawn = draw(features)
    theta = layout.flatten(drawn).requires_grad_()
    features(layout.unflatten(theta, layout.constants(drawn)), X).square().sum().backward()
    assert theta.grad is not None
    for name in layout.names:
        assert bool((theta.grad[:, layout.slices[name]] == 0).all()) == (name == "unused"), name


def test_modules_that_vmap_cannot_batch_are_looped():
    features = Module(seeded_module(BranchesOnData))
    bound = features.bind(X)
    assert bound.batching == "loop"
    assert Module(seeded_module(lambda: nn.Linear(3, 2))).bind(X).batching == "vmap"
    values = draw(bound)
    for f in (features, bound):
        expected = X @ values["linear"]["weight"].mT + values["linear"]["bias"].unsqueeze(-2)
        torch.testing.assert_close(f(values, X), expected, rtol=1e-12, atol=1e-12)


def test_lazy_layers_get_their_sizes_from_the_inputs():
    module = nn.Sequential(nn.LazyLinear(4), nn.Tanh(), nn.LazyLinear(2))
    state = torch.random.get_rng_state()
    with pytest.raises(InputError, match=r"lazy layers without sizes. Call features.bind\(X\) first"):
        Module(module).parameters(X)
    features = Module(module).bind(X)
    assert features(draw(features), X).shape == (4, 20, 2)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert nn.parameter.is_lazy(module[0].weight)


def test_a_module_without_parameters_works():
    features = Module(nn.Tanh()).bind(X)
    assert features.parameters(X) == {}
    torch.testing.assert_close(features({}, X), X.tanh(), rtol=0, atol=0)
    batch = torch.stack([X, 2 * X])
    torch.testing.assert_close(features({}, batch), batch.tanh(), rtol=0, atol=0)


def test_tied_parameters_stay_tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)
            self.outer = nn.Linear(3, 3)
            self.outer.weight = self.inner.weight

        def forward(self, X):
            return self.outer(self.inner(X))

    features = Module(seeded_module(Tied)).bind(X)
    values = draw(features)
    assert set(dict(leaves(values))) == {"inner.weight", "inner.bias", "outer.bias"}
    W = values["inner"]["weight"].mT
    expected = (X @ W + values["inner"]["bias"].unsqueeze(-2)) @ W + values["outer"]["bias"].unsqueeze(-2)
    torch.testing.assert_close(features(values, X), expected, rtol=1e-12, atol=1e-12)


def test_weight_normalised_layers_train():
    features = Module(nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))).bind(X)
    values = draw(features)
    assert all(torch.isfinite(v).all() for _, v in leaves(values))
    assert features(values, X).shape == (4, 20, 2)


def test_dropout_and_batch_norm_in_training_mode_are_refused():
    dropout = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.3))
    with pytest.raises(InputError, match=r"Dropout \('1'\) is in training mode, .* Call module.eval\(\) first"):
        Module(dropout)
    assert Module(dropout.eval()).bind(X)
    assert Module(nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.0))).bind(X)
    norm = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    with pytest.raises(InputError, match=r"BatchNorm1d \('1'\) would make the features of a row depend on the other rows"):
        Chain(norm)
    features = Module(norm.eval()).bind(X)
    values = draw(features)
    assert values["1"]["num_batches_tracked"].dtype == torch.int64
    assert features(values, X).shape == (4, 20, 2)


def test_random_maps_and_maps_across_rows_are_refused():
    class Noisy(nn.Module):
        def forward(self, X):
            return nn.functional.dropout(X, 0.5, training=True)

    class Centred(nn.Module):
        def forward(self, X):
            return X - X.mean(0)

    with pytest.raises(InputError, match="The module Noisy is random"):
        Module(Noisy()).bind(X)
    with pytest.raises(InputError, match="The module Centred gives a row other features when other rows are present"):
        Module(Centred()).bind(X)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Flatten(0), r"must map \(5, D\) to \(5, Q\); The module Flatten gave shape \(15,\)"),
        (nn.RNN(3, 2), "The module RNN gave a tuple"),
        (nn.Unflatten(1, (3, 1)), r"gave shape \(5, 3, 1\)"),
    ],
)
def test_modules_of_another_shape_are_refused(module, message):
    with pytest.raises(InputError, match=message):
        Module(module).bind(X)


def test_arguments_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="restarts must be 'reset' or 'jitter', got 'again'"):
        Module(nn.Linear(3, 2), restarts="again")
    with pytest.raises(InputError, match="batching must be 'auto', 'vmap' or 'loop'"):
        Module(nn.Linear(3, 2), batching="map")
    with pytest.raises(InputError, match=r"torch.nn.Module expected, got 'net'"):
        Module("net")
