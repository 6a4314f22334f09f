"""From what users have to rows of numbers: tables and their encoding, sources of rows, checks, scaling."""

from manifoldgp.data.columns import Column
from manifoldgp.data.encoding import TableEncoding
from manifoldgp.data.source_files import FileRows
from manifoldgp.data.sources import ArrayRows, Block, RowSource, Survey, survey
from manifoldgp.data.table_files import read_table, read_tables, write_table

__all__ = [
    "ArrayRows",
    "Block",
    "Column",
    "FileRows",
    "RowSource",
    "Survey",
    "TableEncoding",
    "read_table",
    "read_tables",
    "survey",
    "write_table",
]
