"""Systems that move: from recordings to a one-step model, rollouts with their uncertainty, and policies that improve on them."""

from manifoldgp.dynamics.dynamics_model import DynamicsModel
from manifoldgp.dynamics.horizon_scores import HorizonScores, cross_validate
from manifoldgp.dynamics.policies import NetworkPolicy, RadialPolicy
from manifoldgp.dynamics.policy_search import Attempt, Improvement, improve, search
from manifoldgp.dynamics.predicted_cost import PredictedCost, SaturatingCost
from manifoldgp.dynamics.rollout import Rollout
from manifoldgp.dynamics.steps import MeanStep, MomentStep, ParticleStep
from manifoldgp.dynamics.trajectories import Trajectories

__all__ = [
    "Attempt",
    "DynamicsModel",
    "HorizonScores",
    "Improvement",
    "MeanStep",
    "MomentStep",
    "NetworkPolicy",
    "ParticleStep",
    "PredictedCost",
    "RadialPolicy",
    "Rollout",
    "SaturatingCost",
    "Trajectories",
    "cross_validate",
    "improve",
    "search",
]
