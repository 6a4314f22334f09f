"""From what users have to rows of numbers: tables and their encoding, sources of rows, checks, scaling; examples to try."""

from manifoldgp._system.files import refuse_overwriting, write_whole
from manifoldgp.data.columns import Column
from manifoldgp.data.encoding import TableEncoding
from manifoldgp.data.examples import Dataset, example_table, rotated_bumps, step_function, walker
from manifoldgp.data.source_files import FileRows
from manifoldgp.data.sources import ArrayRows, Block, RowSource, Survey, survey
from manifoldgp.data.table_files import read_table, read_tables, write_table

__all__ = [
    "ArrayRows",
    "Block",
    "Column",
    "Dataset",
    "FileRows",
    "RowSource",
    "Survey",
    "TableEncoding",
    "example_table",
    "read_table",
    "read_tables",
    "refuse_overwriting",
    "rotated_bumps",
    "step_function",
    "survey",
    "walker",
    "write_table",
    "write_whole",
]
