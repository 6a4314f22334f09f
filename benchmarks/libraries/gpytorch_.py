"""GPyTorch: an ExactGP, with a network for deep kernel learning; always by Cholesky, never by conjugate gradients."""

from __future__ import annotations

import gpytorch
import numpy as np
import torch
from linear_operator.utils.errors import NotPSDError
from scipy.optimize import minimize

from libraries.trace import Best, Trace

torch.set_default_dtype(torch.float64)


class DeepKernelGP(gpytorch.models.ExactGP):
    """SE-ARD on the outputs of a log-sigmoid network, or on the inputs where there is none; zero mean."""

    def __init__(self, X: torch.Tensor, y: torch.Tensor, values: dict) -> None:
        super().__init__(X, y, gpytorch.likelihoods.GaussianLikelihood())
        layers = []
        for W, b in values["layers"]:
            linear = torch.nn.Linear(len(W), len(b))
            linear.weight.data, linear.bias.data = torch.tensor(W).T.contiguous(), torch.tensor(b)
            layers += [linear, torch.nn.Sigmoid()]
        self.net = torch.nn.Sequential(*layers)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=len(values["lengthscale"])))
        self.covar_module.outputscale = values["variance"]
        self.covar_module.base_kernel.lengthscale = torch.tensor(values["lengthscale"])
        self.likelihood.noise = max(values["noise"], 1.1e-4)  # its own lower bound is 1e-4

    def forward(self, X):
        H = self.net(X)
        return gpytorch.distributions.MultivariateNormal(self.mean_module(H), self.covar_module(H))

    def values(self) -> dict:
        """The current parameters as a plain dict."""
        linear = [layer for layer in self.net if isinstance(layer, torch.nn.Linear)]
        return {
            "layers": [[layer.weight.detach().T.tolist(), layer.bias.detach().tolist()] for layer in linear],
            "lengthscale": self.covar_module.base_kernel.lengthscale.detach().ravel().tolist(),
            "variance": float(self.covar_module.outputscale),
            "noise": float(self.likelihood.noise),
        }


def likelihood_of(X: np.ndarray, y: np.ndarray, values: dict, kind: type[DeepKernelGP] = DeepKernelGP):
    """The model in training mode and its exact marginal log-likelihood."""
    model = kind(torch.from_numpy(X), torch.from_numpy(y), values)
    model.train()
    return model, gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)


def exact():
    """Without this, GPyTorch changes to stochastic conjugate gradients above 800 rows."""
    return gpytorch.settings.max_cholesky_size(10**6)


def evaluation(X: np.ndarray, y: np.ndarray, values: dict):
    model, mll = likelihood_of(X, y, values)

    def evaluate() -> float:
        model.zero_grad()
        with exact():
            loss = -mll(model(*model.train_inputs), model.train_targets)
            loss.backward()
        return float(loss) * len(y)

    return evaluate


def fit(X: np.ndarray, y: np.ndarray, starts: list[dict], max_iter: int):
    trace, best = Trace(), Best()
    for values in starts:
        model, mll = likelihood_of(X, y, values)
        parameters = [p for p in model.parameters() if p.requires_grad]

        found = Best()

        def objective(theta, model=model, mll=mll, parameters=parameters, found=found):
            torch.nn.utils.vector_to_parameters(torch.from_numpy(theta), parameters)
            model.zero_grad()
            loss = -mll(model(*model.train_inputs), model.train_targets) * len(y)
            loss.backward()
            trace.seen(loss.item())
            found.offer(loss.item(), theta.copy())
            return loss.item(), torch.cat([p.grad.ravel() for p in parameters]).numpy()

        begin = torch.nn.utils.parameters_to_vector(parameters).detach().numpy().copy()
        try:
            with exact():
                minimize(objective, begin, jac=True, method="L-BFGS-B", options={"maxiter": max_iter})
        except NotPSDError:
            pass  # this start ends at the best point it has seen
        if found.values is not None:
            torch.nn.utils.vector_to_parameters(torch.from_numpy(found.values), parameters)
            best.offer(found.nlml, model.values())
    return best.values, trace.points
