"""MLP: against a slow reference, its low-rank form, and its initial law."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manifoldgp.errors import InputError
from manifoldgp.features import ACTIVATIONS, MLP
from manifoldgp.features.layers import affine
from manifoldgp.parameters import Layout, map_leaves

SLOW = {
    "sigmoid": lambda z: 1 / (1 + math.exp(-z)),
    "identity": lambda z: z,
    "tanh": math.tanh,
    "relu": lambda z: max(z, 0.0),
    "softplus": lambda z: math.log(1 + math.exp(z)),
    "sine": math.sin,
}


def slow_network(layers, activations, X):
    """One neuron at a time."""
    H = X.tolist()
    for (W, b), name in zip(layers, activations, strict=True):
        H = [[SLOW[name](sum(x * w for x, w in zip(row, W[:, j], strict=True)) + b[j]) for j in range(len(b))] for row in H]
    return np.array(H)


def random_inputs(rows, columns, seed=0):
    return torch.randn((rows, columns), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def draw(network, X, count, seed=0):
    return Layout(network.parameters(X)).draw(torch.Generator().manual_seed(seed), count)


def test_every_activation_has_a_reference():
    assert SLOW.keys() == ACTIVATIONS.keys()


@settings(max_examples=40, deadline=None)
@given(
    columns=st.integers(1, 4),
    layers=st.lists(st.tuples(st.integers(1, 5), st.sampled_from(sorted(SLOW))), min_size=1, max_size=3),
    rank=st.none() | st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_network_matches_the_slow_reference(columns, layers, rank, seed):
    sizes, activations = zip(*layers, strict=True)
    network = MLP(sizes, activations, rank=rank)
    X = random_inputs(4, columns, seed)
    values = map_leaves(lambda v: v[0], draw(network, X, 1, seed))
    dense = []
    for i, size in enumerate(sizes):
        layer = {name: value.numpy() for name, value in values[str(i)].items()}
        fan_in = (columns, *sizes)[i]
        assert ("left" in layer) == (rank is not None and rank < min(fan_in, size))
        dense.append((layer["weight"] if "weight" in layer else layer["left"] @ layer["right"], layer["bias"]))
    np.testing.assert_allclose(network(values, X).numpy(), slow_network(dense, activations, X), rtol=1e-10, atol=1e-12)


def test_the_last_layer_has_its_transfer_function_too():
    X = random_inputs(50, 1)
    H = MLP((6, 2))(draw(MLP((6, 2)), X, 5), X)
    assert H.shape == (5, 50, 2)
    assert H.min() > 0
    assert H.max() < 1


@pytest.mark.parametrize("X_batch", [(), (1,), (4,), (3, 1), (3, 4)], ids=str)
@pytest.mark.parametrize("W_batch", [(), (1,), (4,), (3, 1), (3, 4), (1, 1)], ids=str)
@pytest.mark.parametrize("b_batch", [None, "same", ()], ids=str)
def test_affine_equals_matmul(X_batch, W_batch, b_batch):
    g = torch.Generator().manual_seed(0)
    X = torch.randn((*X_batch, 5, 2), generator=g, dtype=torch.float64)
    W = torch.randn((*W_batch, 2, 3), generator=g, dtype=torch.float64)
    b = (
        None
        if b_batch is None
        else torch.randn((*(W_batch if b_batch == "same" else b_batch), 3), generator=g, dtype=torch.float64)
    )
    expected = X @ W if b is None else X @ W + b.unsqueeze(-2)
    torch.testing.assert_close(affine(X, W, b), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("rank", [None, 1])
def test_every_first_transition_lies_at_a_training_input(rank):
    X = random_inputs(30, 3)
    values = draw(MLP((8, 2), rank=rank), X, 20)["0"]
    weight = values["weight"] if rank is None else values["left"] @ values["right"]
    pre_activations = affine(X, weight, values["bias"])  # (20, 30, 8): zero at one input for every unit
    assert pre_activations.abs().amin(-2).max() < 1e-12
    assert len(torch.unique(pre_activations.abs().argmin(-2))) > 25


@pytest.mark.parametrize("rank", [None, 3])
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_first_weights_have_the_documented_spread(rank, scale):
    X = random_inputs(30, 5)
    values = draw(MLP((50, 2), scale=scale, rank=rank), X, 200)["0"]
    weight = values["weight"] if rank is None else values["left"] @ values["right"]
    assert weight.std() == pytest.approx(scale / math.sqrt(5), rel=0.03)


@pytest.mark.parametrize(("activation", "gain"), [("sigmoid", 3.0), ("identity", 1.0), ("tanh", 1.5), ("relu", math.sqrt(2))])
def test_later_layers_are_centred_with_the_documented_gain(activation, gain):
    X = random_inputs(100, 2)
    network = MLP((20, 30), ("sigmoid", activation))
    values = draw(network, X, 100)
    assert values["1"]["weight"].std() == pytest.approx(gain / math.sqrt(20), rel=0.03)
    hidden = torch.sigmoid(affine(X, values["0"]["weight"], values["0"]["bias"]))
    assert affine(hidden, values["1"]["weight"], values["1"]["bias"]).mean(-2).abs().max() < 1e-12


def test_a_purely_linear_network_starts_centred_with_unit_variance():
    X = random_inputs(500, 4)
    H = MLP((3,), "identity")(draw(MLP((3,), "identity"), X, 300), X)
    assert H.mean(-2).abs().max() < 0.3
    assert H.std(-2).square().mean() == pytest.approx(1.0, rel=0.1)


def test_one_name_means_every_layer():
    assert MLP((3, 2, 1), "tanh").activations == ("tanh", "tanh", "tanh")
    assert MLP([3, 2], ["tanh", "sine"]) == MLP((3, 2), ("tanh", "sine"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sizes": ()}, "at least one layer"),
        ({"sizes": 6}, "at least one layer"),
        ({"sizes": (6, 0)}, "positive integer, got 0"),
        ({"sizes": (6, 2.5)}, "positive integer, got 2.5"),
        ({"sizes": (True,)}, "positive integer, got True"),
        ({"sizes": (6, 2), "activation": "logsig"}, "'logsig'. There are: sigmoid, identity, tanh, relu, softplus, sine"),
        ({"sizes": (6, 2), "activation": ("tanh",)}, "2 layers and 1 activations"),
        ({"sizes": (6, 2), "rank": 0}, "rank of an MLP must be a positive integer"),
        ({"sizes": (6, 2), "scale": -1.0}, "scale of an MLP must be a positive number"),
        ({"sizes": (6, 2), "scale": "big"}, "scale of an MLP must be a positive number"),
    ],
)  # fmt: skip
def test_arguments_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        MLP(**arguments)
