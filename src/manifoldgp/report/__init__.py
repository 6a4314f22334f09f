"""Pages that a person reads: one HTML file each, which opens from disk without a network."""

from manifoldgp.report.readme import update_readme
from manifoldgp.report.reproduction import write_reproduction

__all__ = ["update_readme", "write_reproduction"]
