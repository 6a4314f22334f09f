"""The training objective and its gradient by hand: the chain rule of the paper in NumPy and LAPACK, a file for each factor.

    theta -> features H -> scaled features Z -> K -> NLML            (features, kernel, evidence)
    dtheta <- dH        <- dZ                <- dNLML/dK             (the same files, backwards)

A graph of small PyTorch calls costs several times as much as the arithmetic at N = 100. Here nearly every fit, those with the features,
kernels and means of :func:`closed_form`, gets the same numbers from a few dozen calls, in matrices that are used again and again.
Everything else, second derivatives included, stays with automatic differentiation.

Inside, features are rows: H is (R, Q, N), so that sums over data points run over adjacent numbers.
"""

from manifoldgp.closed_form.evaluation import Evaluation, closed_form

__all__ = ["Evaluation", "closed_form"]
