"""Systems that move: from recordings to a one-step model, and rollouts with their uncertainty."""

from manifoldgp.dynamics.dynamics_model import DynamicsModel, cross_validate
from manifoldgp.dynamics.horizon_scores import HorizonScores
from manifoldgp.dynamics.rollout import Rollout
from manifoldgp.dynamics.steps import MeanStep, MomentStep, ParticleStep
from manifoldgp.dynamics.trajectories import Trajectories

__all__ = [
    "DynamicsModel",
    "HorizonScores",
    "MeanStep",
    "MomentStep",
    "ParticleStep",
    "Rollout",
    "Trajectories",
    "cross_validate",
]
