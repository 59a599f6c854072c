"""The report of nvidia-bug-report.sh, by which it is known."""

START = "Start of NVIDIA bug report log file"
WITHIN = 2000
"""Characters of it in which that stands."""
