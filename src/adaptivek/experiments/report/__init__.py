"""Results of many runs as one page, a table and the paper's claims counted."""

from .page import report as report
