"""Estimators whose members were drawn instead of trained: every part of the package in a fitted model, in milliseconds."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from manifoldgp import features, kernels
from manifoldgp import means as prior_means
from manifoldgp.data.scaling import Standardizer
from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
from manifoldgp.inference.certainty import Certainty
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.model import Data, Model
from manifoldgp.parameters import leaves, nest
from manifoldgp.warping import TanhWarping

N, D = 30, 3


def _sequential(*layers: nn.Module) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for layer in layers:
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()
        return nn.Sequential(*layers).eval()


FEATURES = {
    "identity": features.Identity(),
    "linear": features.Linear(2),
    "linear-bias": features.Linear(2, bias=True),
    "fixed-linear": features.FixedLinear(((1.0, 2.0), (0.5, -1.0), (0.0, 3.0)), (0.1, 0.2)),
    "pca": features.PCA(2),
    "random-embedding": features.RandomEmbedding(4),
    "auto-encoder": features.AutoEncoder((4, 2), steps=9),
    "mlp": features.MLP((6, 2)),
    "mlp-all-activations": features.MLP((4, 5, 4, 3, 4, 2), ("sine", "softplus", "relu", "tanh", "sigmoid", "identity")),
    "mlp-low-rank": features.MLP((12, 12, 2), "tanh", rank=1),
    "nested": features.Nested(5, 2),
    "kumaraswamy": features.Kumaraswamy(),
    "concatenate": features.Concatenate(features.Identity(), features.MLP((4, 2))),
    "residual": features.Residual(features.MLP((4, D), "tanh")),
    "chain": features.Chain(features.Kumaraswamy(), features.PCA(2), features.MLP((3, 2))),
    "tree": features.Concatenate(features.Residual(features.Linear(D)), features.PCA(1) >> features.MLP((2,))),
    "module": features.Module(_sequential(nn.Linear(D, 4), nn.Tanh(), nn.Sequential(nn.Linear(4, 5), nn.SiLU()), nn.Linear(5, 2))),
    "module-activations": features.Module(
        _sequential(
            nn.Linear(D, 4), nn.ELU(0.7), nn.Linear(4, 4, bias=False), nn.LeakyReLU(0.1), nn.Dropout(), nn.Linear(4, 4), nn.Softplus(),
            nn.Linear(4, 3), nn.Sigmoid(), nn.Linear(3, 2), nn.ReLU(), nn.Identity(),
        )
    ),
}  # fmt: skip

KERNELS = {
    "se": kernels.SquaredExponential(),
    "se-unscaled": kernels.SquaredExponential(scaled=False),
    "se-one-lengthscale": kernels.SquaredExponential(ard=False, amplitude=False),
    "se-first-feature": kernels.SquaredExponential(dims=(0,)),
    "matern12": kernels.Matern12(),
    "matern32": kernels.Matern32(),
    "matern52": kernels.Matern52(scaled=False),
    "rq": kernels.RationalQuadratic(),
    "nn": kernels.NeuralNetwork(),
    "nn-plain": kernels.NeuralNetwork(ard=False, amplitude=False),
    "periodic": kernels.Periodic(),
    "periodic-one": kernels.Periodic(ard=False, amplitude=False),
    "periodic-centred": kernels.Periodic(centred=True),
    "sm": kernels.SpectralMixture(),
    "sm-one": kernels.SpectralMixture(2, ard=False, amplitude=True),
    "additive": kernels.Additive(),
    "additive-matern12": kernels.Additive("matern12", orders=1),
    "additive-matern32": kernels.Additive("matern32", orders=2),
    "orthogonal": kernels.OrthogonalAdditive(orders=2),
    "linear": kernels.Linear(),
    "linear-amplitude": kernels.Linear(ard=False, amplitude=True),
    "linear-origin": kernels.Linear(origin=True),
    "constant": kernels.Constant(),
    "switch": kernels.Switch(on=1) * kernels.Matern32() + kernels.Switch(rising=False, dims=(0,)),
    "change-point": kernels.ChangePoint(kernels.SquaredExponential(dims=(0,)), kernels.Linear(), on=1),
    "sum": kernels.SquaredExponential(dims=(1,)) + kernels.Linear() + kernels.Constant() + kernels.NeuralNetwork(),
    "product": kernels.Matern32() * kernels.Periodic(amplitude=False, dims=(1, 0)) * kernels.NeuralNetwork() * kernels.Linear(),
    "tree": kernels.Sum(kernels.Constant() * kernels.Linear(), kernels.RationalQuadratic(), dims=(1,))
    * kernels.SpectralMixture(2),
}


def make_inputs(rows: int, seed: int = 0) -> np.ndarray:
    """Inputs in units of their own; the last column is far from zero."""
    return np.random.default_rng(seed).normal(size=(rows, D)) * [0.5, 2.0, 3.0] + [1.0, 0.0, 60.0]


def drawn_estimator(
    parts,
    targets: int = 1,
    factors: tuple[float, ...] = (1.0,),
    flat: bool = True,
    seed: int = 0,
    exponents: tuple[float, ...] = (),
    rows: int = N,
):
    """A fitted ManifoldGPRegressor. parts: (model, members) for each block; weights are drawn, one member alone has weight one.

    exponents: for each target how weights follow how sure members are; 0: not at all.
    """
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    X, Y = make_inputs(rows, seed), rng.normal(size=(rows, targets)) * 3.0 + 40.0
    estimator = ManifoldGPRegressor()
    estimator.x_scaler_, estimator.y_scaler_ = Standardizer.fit(X), Standardizer.fit(Y)
    U, T = torch.from_numpy(estimator.x_scaler_.apply(X)), torch.from_numpy(estimator.y_scaler_.apply(Y))
    estimator.ensembles_ = []
    for o in range(targets):
        data = Data(U, T[:, o].contiguous())
        blocks = []
        for model, members in parts:
            bound = model.bind(U)
            values = bound.draw(data, generator, members)[1]
            # noise of a tenth to a half of sd(y): predictions then have digits to compare
            named = {name: v * 0.0 + 0.2 + 0.1 * members if name == "noise.scale" else v for name, v in leaves(values)}
            blocks.append(condition(bound, nest(named), data))
        weights = [rng.uniform(0.1, 1.0, size=(len(factors), members)) for _, members in parts]
        total = sum(w.sum() for w in weights)
        logs = [torch.from_numpy(np.log(w / total)) for w in weights]
        offset, scale = float(estimator.y_scaler_.offset[o]), float(estimator.y_scaler_.scale[o])
        certainty = drawn_certainty(blocks, exponents[o], seed) if exponents and exponents[o] else None
        estimator.ensembles_.append(Ensemble(blocks, logs, factors, offset, scale, certainty))
    estimator.n_features_in_, estimator.n_outputs_, estimator._flat = D, targets, flat and targets == 1
    return estimator


def drawn_certainty(blocks, exponent: float, seed: int = 0) -> Certainty:
    """Weights that follow how sure the members of these blocks are, whose usual variances are drawn."""
    rng = np.random.default_rng(seed + 1)
    return Certainty(exponent, 0.8, [torch.from_numpy(rng.normal(-1.5, 0.5, size=block.members)) for block in blocks])


def drawn_pair(features_name: str, kernel_name: str, members: int = 2):
    """An estimator with one block of these features and this kernel."""
    model = Model(features=FEATURES[features_name], kernel=KERNELS[kernel_name])
    return drawn_estimator([(model, members)])


def every_part():
    """Estimators that together have every kernel, feature map, mean and warping, several members, architectures and targets."""
    names = list(FEATURES)
    yield from (drawn_pair(names[i % len(names)], kernel, 1 + i % 2) for i, kernel in enumerate(KERNELS))
    module = prior_means.Module(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)), on="features")
    yield drawn_estimator([(Model(features=features.MLP((3, 4)), mean=module, warping=TanhWarping(2)), 2)], factors=(0.5, 2.0))
    yield drawn_estimator([(Model(kernel=KERNELS["sum"], warping=TanhWarping(2)), 1)])
    mixed = [
        (Model(features=features.MLP((3, 4)), mean=prior_means.Linear()), 1),
        (Model(features=features.Nested(4, 2), kernel=kernels.SquaredExponential(scaled=False), mean=prior_means.Constant()), 3),
    ]
    yield drawn_estimator(mixed, factors=(0.5, 2.0))
    yield drawn_estimator(mixed, targets=3)
    yield drawn_estimator(mixed, factors=(0.5, 2.0), exponents=(0.7,))
    yield drawn_estimator(mixed, targets=3, exponents=(2.0, 0.0, 0.7))
    yield drawn_estimator(
        [(Model(features=features.MLP((3, 4)), warping=TanhWarping(2)), 2)], factors=(0.5, 2.0), exponents=(1.5,)
    )


def rounding(estimator, X):
    """What rounding can do to mean and variance, in the units of y: 1e-14 of Σ |k alpha|, and 1e-15 of k(h, h) cond(L)."""
    U = torch.from_numpy(estimator.x_scaler_.apply(X))
    sums, priors = [], []
    for ensemble in estimator.ensembles_:
        for block in ensemble.blocks:
            k = block.model.kernel.cross(block.values.get("kernel", {}), block.H, block.transform(U))
            sums.append(float((k * block.alpha[..., None]).abs().sum(-2).max()) * ensemble.scale)
            condition = float(torch.linalg.cond(block.L).max())
            priors.append(float(block.prior_variance(U).max()) * condition * ensemble.scale**2)
    return 1e-14 * max(sums), 1e-15 * max(priors)
