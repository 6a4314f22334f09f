"""From files to a fitted model file, on one process or on all that torchrun started."""

from manifoldgp.scale.files import fit_files

__all__ = ["fit_files"]
