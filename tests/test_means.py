"""Every mean function against the obvious formula, and the properties they share."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck

from manifoldgp.errors import InputError
from manifoldgp.means import Constant, Linear, Mean, Module, Zero, as_mean
from manifoldgp.parameters import Layout, leaves, map_leaves, nest


def network(out: int = 1) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, out))


class Flat(nn.Module):
    """Returns (N,) rather than (N, 1), has a buffer, a frozen parameter, and a step that vmap cannot follow."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor([1.0, -2.0, 0.5]))
        self.frozen = nn.Parameter(torch.tensor(0.3), requires_grad=False)
        self.register_buffer("shift", torch.tensor(2.0))

    def forward(self, H):
        if float(self.shift) > 1.0:
            return torch.tanh(H @ self.slope) + self.frozen + self.shift
        return H @ self.slope


MEANS = {"zero": Zero(), "constant": Constant(), "linear": Linear(), "network": Module(network()), "flat": Module(Flat())}
all_means = pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS.keys())


def features(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def drawn(mean: Mean, H: torch.Tensor, count: int | None = None):
    values = Layout(mean.parameters(H)).draw(torch.Generator().manual_seed(1), count or 1)
    return values if count else map_leaves(lambda leaf: leaf[0], values)


def test_formulas():
    H = features(4, 3)
    assert torch.equal(Zero()({}, H), torch.zeros(4, dtype=torch.float64))
    c = torch.tensor(1.5, dtype=torch.float64)
    assert torch.equal(Constant()({"constant": c}, H), c.expand(4))
    weights = features(3, seed=2)
    expected = torch.stack([sum(weights[q] * h[q] for q in range(3)) + c for h in H])
    torch.testing.assert_close(Linear()({"weights": weights, "bias": c}, H), expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("module", [network(), Flat()], ids=["network", "flat"])
def test_the_first_start_of_a_module_is_the_module(module):
    mean, H = Module(module), features(6, 3)
    values = drawn(mean, H, 3)
    own = copy.deepcopy(module).double()
    first = map_leaves(lambda leaf: leaf[0], values)
    torch.testing.assert_close(mean(first, H), own(H).detach().reshape(6), rtol=1e-13, atol=1e-14)
    second = mean(map_leaves(lambda leaf: leaf[1], values), H)
    assert 1e-4 < float((second - mean(first, H)).abs().max()) < 1.0
    assert all(p.dtype == torch.float32 for p in module.parameters())  # never changed


def test_constants_of_a_module():
    tree = dict(leaves(Module(Flat()).parameters(features(5, 3))))
    assert {name: p.trainable for name, p in tree.items()} == {"slope": True, "frozen": False, "shift": False}
    tree = dict(leaves(Module(network()).parameters(features(5, 3))))
    assert {name: p.shape for name, p in tree.items()} == {"0.weight": (4, 3), "0.bias": (4,), "2.weight": (1, 4), "2.bias": (1,)}


@all_means
@pytest.mark.parametrize("batched", ["both", "values", "features", "outputs"])
def test_a_batch_is_a_loop(mean, batched):
    R, O = 3, 2  # noqa: E741
    H = features(5, 3) if batched == "values" else features(R, 5, 3)
    values = drawn(mean, features(5, 3), R * O if batched == "outputs" else None if batched == "features" else R)
    if batched == "outputs":
        values = map_leaves(lambda leaf: leaf.unflatten(0, (R, O)), values)
        H = H.unsqueeze(1)
    m = mean(values, H)
    expected_batch = H.shape[:-2] if not values else (R, O) if batched == "outputs" else (R,)
    assert m.shape == (*expected_batch, 5)
    for index in [(r, o) for r in range(R) for o in range(O)] if batched == "outputs" else [(r,) for r in range(R)]:
        if not values:
            break
        one = values if batched == "features" else map_leaves(lambda leaf, i=index: leaf[i], values)
        h = H if batched == "values" else H[index[0], 0] if batched == "outputs" else H[index[0]]
        torch.testing.assert_close(m[index], mean(one, h), rtol=1e-13, atol=1e-14)


@all_means
def test_derivatives_with_respect_to_every_parameter_and_to_the_features(mean):
    H = features(4, 3)
    tree = dict(leaves(mean.parameters(H)))
    values = dict(leaves(drawn(mean, H, 2)))
    trained = {name: leaf.requires_grad_() for name, leaf in values.items() if tree[name].trainable}
    if not trained:
        return
    fixed = {name: leaf for name, leaf in values.items() if name not in trained}

    def function(*tensors):
        return mean(nest({**fixed, **dict(zip(trained, tensors, strict=False))}), *tensors[len(trained) :])

    if isinstance(mean, Constant):
        assert gradcheck(lambda c: mean({"constant": c}, H), list(trained.values()))
        return
    inputs = [*trained.values(), H.requires_grad_()]
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


@all_means
def test_descriptions_are_plain(mean):
    assert copy.deepcopy(mean) == mean
    assert pickle.loads(pickle.dumps(mean)) == mean
    assert hash(copy.deepcopy(mean)) == hash(mean)
    assert type(mean).__name__ in repr(mean)


def test_modules_with_other_weights_differ():
    other = network()
    with torch.no_grad():
        next(other.parameters()).add_(1.0)
    assert Module(other) != Module(network())
    assert Module(network()) != Module(Flat())
    assert Module(network()) != Zero()


def test_starting_values_follow_the_spread_of_the_features():
    H = features(50, 3) * torch.tensor([1.0, 10.0, 0.1], dtype=torch.float64)
    weights = Linear().parameters(H)["weights"].initial(torch.Generator().manual_seed(0), 2000)
    expected = 0.1 / 3**0.5 / H.std(-2, correction=0)
    torch.testing.assert_close(weights.std(0), expected, rtol=0.1, atol=0)
    per_start = Linear().parameters(torch.stack([H, 100 * H]))["weights"].initial(torch.Generator().manual_seed(0), 2)
    same = Linear().parameters(H)["weights"].initial(torch.Generator().manual_seed(0), 2)
    torch.testing.assert_close(per_start, same * torch.tensor([[1.0], [0.01]], dtype=torch.float64), rtol=1e-12, atol=0)
    constants = Constant().parameters(H)["constant"].initial(torch.Generator().manual_seed(0), 2000)
    assert abs(float(constants.std()) - 0.1) < 0.01


def test_modules_that_cannot_be_means_are_refused():
    H = features(6, 3)
    with pytest.raises(
        InputError, match=r"maps inputs \(5, 3\) to \(5,\) or \(5, 1\); The module Sequential gave shape \(5, 2\)"
    ):
        Module(network(out=2)).parameters(H)
    with pytest.raises(InputError, match="The module Sequential is random, or gives a row another mean"):
        Module(nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 1))).parameters(H)
    with pytest.raises(InputError, match=r"Call module.eval\(\) first"):
        Module(nn.Sequential(nn.BatchNorm1d(3, track_running_stats=False), nn.Linear(3, 1))).parameters(H)
    with pytest.raises(
        InputError, match=r"a mean on the inputs, which have 2 columns here.* say mean=Module\(module, on='features'\)"
    ):
        Module(network()).parameters(H[:, :2])
    with pytest.raises(
        InputError, match=r"a mean on the features, which have 2 columns here.* say mean=Module\(module, on='inputs'\)"
    ):
        Module(network(), on="features").parameters(H[:, :2])
    with pytest.raises(InputError, match="has lazy layers without sizes"):
        Module(nn.LazyLinear(1))
    with pytest.raises(InputError, match=r"A torch.nn.Module is expected, got 3"):
        Module(3)  # type: ignore[arg-type]


def test_a_mean_is_on_inputs_or_on_features():
    assert (Zero().on, Linear().on, Module(network()).on) == ("inputs", "inputs", "inputs")
    assert Linear(on="features") != Linear()
    assert Module(network(), on="features") != Module(network())
    for make in (Linear, lambda on: Module(network(), on=on)):
        with pytest.raises(InputError, match=r"on of a \w+ mean must be 'inputs' or 'features'; got 'targets'"):
            make(on="targets")


def test_shorthands():
    assert (as_mean("zero"), as_mean("constant"), as_mean("linear")) == (Zero(), Constant(), Linear())
    mean = Linear()
    assert as_mean(mean) is mean
    assert as_mean(network()) == Module(network())
    with pytest.raises(InputError, match="one of 'zero', 'constant', 'linear'.*; got 'quadratic'"):
        as_mean("quadratic")
