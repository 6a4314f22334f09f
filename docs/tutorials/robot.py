# %% [markdown]
# # On a robot
#
# An arm of one joint carries a load and sticks a little. A model of its torque, learned from a recorded motion, shall run in its controller a thousand times a second: without PyTorch, with an
# error bar at every tick, and in the end without Python.

# %%
import time
from pathlib import Path

import numpy as np

from manifoldgp import ManifoldGPRegressor, Single, plots

rng = np.random.default_rng(0)


def torque(q, v):
    """Gravity, viscous friction, and dry friction that changes its sign with the velocity."""
    return 9.81 * 0.4 * np.sin(q) + 0.3 * v + 0.5 * np.tanh(20 * v)


t = np.linspace(0, 30, 300)
q, v = np.sin(t) + 0.4 * np.sin(2.3 * t), np.cos(t) + 0.92 * np.cos(2.3 * t)
X, y = np.stack([q, v], 1), torque(q, v) + 0.05 * rng.normal(size=len(t))

# %% [markdown]
# One network is quick to evaluate; an average is safer where rows are few. Here are 300 rows of two inputs, and a microcontroller with little memory: `Single`.

# %%
single = Single(restarts=4, max_iter=100)
model = ManifoldGPRegressor(features=(10, 3), averaging=single).fit(X, y)
p = model.predictor()
p.save("arm.npz")
p

# %% [markdown]
# ## NumPy alone
#
# The time is that of the machine that built this page. `Predictor.load("arm.npz")` needs NumPy and this package, and no PyTorch. It agrees with the model to rounding:

# %%
mean, std = p(X, return_std=True)
print(f"largest difference from model.predict: {np.abs(mean - model.predict(X)).max():.1e}")

x, ticks = X[:1].copy(), np.empty(2000)
for i in range(len(ticks)):
    begin = time.perf_counter()
    p(x, return_std=True)
    ticks[i] = time.perf_counter() - begin
print(f"one point, mean and standard deviation: median {1e6 * np.median(ticks):.0f} µs")

# %% [markdown]
# ## It knows where it is not sure
#
# Dry friction jumps where the velocity changes its sign. There the model is least sure, and the controller can trust the feedforward torque less:

# %% alt="The standard deviation over angle and velocity: small but for a narrow band at zero velocity."
plots.plot_std_map(model, (0, 1), points=50).figure

# %% [markdown]
# ## A sensor with an error
#
# The encoder of the velocity is noisy. `predict` takes the covariance of its inputs: around zero velocity, where dry friction changes its sign, the torque becomes uncertain.

# %%
covariance = np.diag([0.0, 0.05**2])
for velocity in (0.0, 1.0):
    at = [[0.3, velocity]]
    _, exact = model.predict(at, return_std=True)
    _, noisy = model.predict(at, return_std=True, input_cov=covariance)
    print(f"velocity {velocity}: ±{2 * exact[0]:.2f} exact sensor, ±{2 * noisy[0]:.2f} noisy sensor")

# %% [markdown]
# ## Plain C
#
# One C99 file, without libraries, allocation or state; the header says what to call.

# %%
print(p.to_c("arm.c"))
print(Path("arm.h").read_text())

# %% [markdown]
# More: [on a robot](../robot.md), with ONNX, C++, a loop at 1 kHz, and measured times.
