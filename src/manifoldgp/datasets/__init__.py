"""Data sets of the paper's experiments, each a function that returns a :class:`Dataset`."""

from manifoldgp.datasets._dataset import Dataset
from manifoldgp.datasets.example import example_table
from manifoldgp.datasets.rotated_bumps import rotated_bumps
from manifoldgp.datasets.simulate_walker import WALKER_COLUMNS, simulate_walker, write_walker_csv
from manifoldgp.datasets.smooth import smooth_function
from manifoldgp.datasets.step import step_function
from manifoldgp.datasets.walker import icub_walking, walker, walking_robot

__all__ = [
    "WALKER_COLUMNS",
    "Dataset",
    "example_table",
    "icub_walking",
    "rotated_bumps",
    "simulate_walker",
    "smooth_function",
    "step_function",
    "walker",
    "walking_robot",
    "write_walker_csv",
]
