"""Bridges to other packages, each an optional extra, imported by nobody inside."""
