"""Tables with names: how their columns become numbers, and the files they come from. Needs the extra ``data`` (pandas)."""

from manifoldgp.tables.columns import Column
from manifoldgp.tables.encoding import TableEncoding
from manifoldgp.tables.files import read_table, read_tables, write_table

__all__ = ["Column", "TableEncoding", "read_table", "read_tables", "write_table"]
