"""The libraries that are compared, one adapter module each; an adapter is imported only in the process that measures it.

An adapter has ``evaluation(X, y, values)``, a function without arguments that computes the NLML and all its gradients once and returns the
NLML, and ``fit(X, y, starts, max_iter)``, which returns ``(values, trace)``: the best parameters and pairs (seconds, NLML).
Parameters are the plain dicts of :mod:`problems`, so that one NumPy formula can check every library's answer.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Library:
    """module: the adapter. package: what is imported, and whose version is told. peers: lives in the peers' environment."""

    module: str
    package: str
    peers: bool = False
    network_fit: bool = False
    how: str = ""


LIBRARIES = {
    "manifoldgp": Library("ours", "manifoldgp", network_fit=True, how="GPRegressor and ManifoldGPRegressor, default settings"),
    "GPyTorch": Library(
        "gpytorch_", "gpytorch", network_fit=True, how="ExactGP, Cholesky, SciPy's L-BFGS-B on a plain closure, one start after another"
    ),
    "BoTorch": Library("botorch_", "botorch", network_fit=True, how="the GPyTorch model trained by fit_gpytorch_mll"),
    "scikit-learn": Library("sklearn_", "sklearn", how="GaussianProcessRegressor, its own L-BFGS-B"),
    "GPy": Library("gpy_", "GPy", peers=True, how="GPRegression, optimize('lbfgsb')"),
    "GPflow": Library("gpflow_", "gpflow", peers=True, how="GPR, optimizers.Scipy, compiled with tf.function"),
    "libKriging": Library("libkriging", "pylibkriging", peers=True, how="Kriging('gauss', 'nugget'), its own BFGS"),
    "libKriging MLP": Library(
        "mlpkriging", "pylibkriging", peers=True, network_fit=True, how="MLPKriging, its own BFGS+Adam from one start; it has no noise term"
    ),
}  # fmt: skip

OURS = "manifoldgp"
WITHOUT_EVALUATION = ("BoTorch",)
"""BoTorch evaluates GPyTorch's model: measured once."""

PLAIN_FITS = tuple(name for name in LIBRARIES if name != "libKriging MLP")
