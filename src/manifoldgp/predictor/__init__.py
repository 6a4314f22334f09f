"""A fitted model without PyTorch: a short program of array operations that runs on NumPy alone.

    p = model.predictor()                     # where the model was fitted
    p.save("model.npz")

    from manifoldgp.predictor import Predictor   # on the robot: NumPy is all that is imported
    p = Predictor.load("model.npz")
    mean, std = p(X, return_std=True)

Nothing in this package imports more than NumPy.
"""

from manifoldgp.predictor.functions import FunctionPredictor
from manifoldgp.predictor.predictor import Predictor
from manifoldgp.predictor.program import Instruction, Program

__all__ = ["FunctionPredictor", "Instruction", "Predictor", "Program"]
