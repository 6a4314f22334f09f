"""Run where the three new parts are in the package: they train together, survive a file, and go into a predictor."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import manifoldgp
from manifoldgp import averaging, features

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 2))
y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=40)
model = manifoldgp.ManifoldGPRegressor(features.Stretched(), "cauchy", averaging=averaging.Uniform(restarts=2)).fit(X, y)
mean, std = model.predict(X, return_std=True)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.mgp"
    model.save(path)
    again = manifoldgp.load(path)
assert (again.predict(X) == mean).all()
assert repr(again.averaging) == repr(model.averaging)
for found, expected in zip(model.predictor()(X, return_std=True), (mean, std), strict=True):
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
assert manifoldgp.ManifoldGPRegressor(averaging="uniform", kernel="cauchy").get_params()["averaging__restarts"] == 3
print("The new parts work.")
