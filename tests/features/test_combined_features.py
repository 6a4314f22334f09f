"""Concatenate, Chain, Residual and as_features."""

import pytest
import torch
from sklearn.decomposition import PCA as SklearnPCA
from torch import nn

from manifoldgp.errors import InputError
from manifoldgp.features import (
    MLP,
    PCA,
    Chain,
    Concatenate,
    Identity,
    Kumaraswamy,
    Linear,
    Module,
    Residual,
    Transformer,
    as_features,
)
from manifoldgp.parameters import Layout, leaves

X = torch.randn((30, 3), generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def draw(features, count=4):
    return Layout(features.parameters(X)).draw(torch.Generator().manual_seed(1), count)


def test_concatenate_puts_features_side_by_side():
    features = Concatenate(Identity(), MLP((4, 2)), Linear(1))
    values = draw(features)
    assert [name for name, _ in leaves(values)] == [
        "1.0.weight", "1.0.bias", "1.1.weight", "1.1.bias", "2.weight",
    ]  # fmt: skip
    H = features(values, X)
    torch.testing.assert_close(H[..., :3], X.expand(4, 30, 3), rtol=0, atol=0)
    torch.testing.assert_close(H[..., 3:5], MLP((4, 2))(values["1"], X), rtol=0, atol=0)
    torch.testing.assert_close(H[..., 5:], Linear(1)(values["2"], X), rtol=0, atol=0)


@pytest.mark.parametrize("make", [lambda part: Concatenate(part, Identity()), lambda part: part >> Linear(1), Residual])
def test_parts_with_a_penalty_of_their_own_are_refused(make):
    with pytest.raises(InputError, match=r"Guided\(.* adds a penalty of its own .* Use these features alone"):
        make(MLP((3,)).guided())


def test_chain_composes_from_left_to_right():
    features = PCA(2) >> MLP((4, 3)) >> Linear(1)
    assert features == Chain(PCA(2), MLP((4, 3)), Linear(1)) == Chain(PCA(2) >> MLP((4, 3)), Linear(1))
    assert features == PCA(2) >> (MLP((4, 3)) >> Linear(1))
    values = draw(features)
    expected = Linear(1)(values["2"], MLP((4, 3))(values["1"], PCA(2)(values["0"], X)))
    torch.testing.assert_close(features(values, X), expected, rtol=0, atol=0)


def test_later_parts_start_from_the_features_before_them():
    values = draw(PCA(2) >> MLP((5, 2)))
    H = PCA(2)(values["0"], X)
    pre_activations = H @ values["1"]["0"]["weight"] + values["1"]["0"]["bias"].unsqueeze(-2)
    assert pre_activations.abs().amin(-2).max() < 1e-12
    through_network = Layout((MLP((4, 2)) >> Kumaraswamy()).parameters(X)).draw(torch.Generator(), 3)["1"]
    assert (through_network["low"] > -0.1).all()
    assert (through_network["high"] < 1.1).all()


def test_residual_adds_the_input():
    features = Residual(MLP((4, 3), "tanh"))
    values = draw(features)
    torch.testing.assert_close(features(values, X), X + MLP((4, 3), "tanh")(values["inner"], X), rtol=0, atol=0)


@pytest.mark.parametrize("q", [1, 2, 4])
def test_residual_needs_as_many_features_as_inputs(q):
    features = Residual(MLP((5, q)))
    with pytest.raises(InputError, match=f"inputs have 3 columns, .* gives {q}. Change its last size to 3, or use Concatenate"):
        features(draw(features), X)


def test_combinations_can_be_rebuilt_by_field_name():
    for make in (Chain, Concatenate):
        parts = [PCA(2), MLP((4, 2))]
        assert make(parts=parts) == make(*parts)
        with pytest.raises(InputError, match=f"{make.__name__} needs at least one part"):
            make()
        with pytest.raises(InputError, match="not both"):
            make(PCA(2), parts=(PCA(2),))
    assert Chain(Identity(), Linear(1)) != Concatenate(Identity(), Linear(1))


def test_operators_take_modules_and_transformers_on_both_sides():
    module, transformer = nn.Linear(2, 2), SklearnPCA(2)
    assert transformer >> MLP((2,)) == Chain(Transformer(transformer), MLP((2,)))
    assert PCA(2) >> module == Chain(PCA(2), Module(module))
    assert module >> PCA(2) == Chain(Module(module), PCA(2))


def test_as_features_takes_what_people_have():
    network, module, transformer = MLP((2,)), nn.Linear(3, 1), SklearnPCA(1)
    assert as_features(network) is network
    assert as_features(None) == Identity()
    assert as_features(module) == Module(module)
    assert as_features(transformer) == Transformer(transformer)
    with pytest.raises(InputError, match=r"transformer or None expected, got 'pca'"):
        as_features("pca")
    with pytest.raises(InputError, match=r"Did you mean an instance, PCA\(\.\.\.\)"):
        as_features(SklearnPCA)
    with pytest.raises(InputError, match=r"Did you mean an instance, MLP\(\.\.\.\)"):
        Residual(MLP)
