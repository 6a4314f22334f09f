"""Systems that move: from recordings to a one-step model, and rollouts with their uncertainty."""

from manifoldgp.dynamics.dynamics_model import DynamicsModel
from manifoldgp.dynamics.policies import NetworkPolicy
from manifoldgp.dynamics.policy_search import Attempt, Improvement, PredictedCost, SaturatingCost, improve, search
from manifoldgp.dynamics.rollout import Rollout
from manifoldgp.dynamics.steps import MeanStep, MomentStep, ParticleStep
from manifoldgp.dynamics.trajectories import Trajectories

__all__ = [
    "Attempt",
    "DynamicsModel",
    "Improvement",
    "MeanStep",
    "MomentStep",
    "NetworkPolicy",
    "ParticleStep",
    "PredictedCost",
    "Rollout",
    "SaturatingCost",
    "Trajectories",
    "improve",
    "search",
]
