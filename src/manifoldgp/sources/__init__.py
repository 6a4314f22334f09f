"""Where rows come from when they need not fit into memory: arrays (memory-mapped or not), Parquet and CSV files."""

from manifoldgp.sources._abstract import Block, RowSource, joined
from manifoldgp.sources.arrays import ArrayRows
from manifoldgp.sources.files import FileRows
from manifoldgp.sources.survey import Survey, survey

__all__ = ["ArrayRows", "Block", "FileRows", "RowSource", "Survey", "joined", "survey"]
