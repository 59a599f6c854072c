"""Gaps that instructions leave for the reader to fill in: <account>, <YOUR IP>, { partition }."""

from gpudoctor.lazy import lazy_re

ANGLED = lazy_re(r"(?<![<\w])<([A-Za-z][\w .:/-]{0,60}\w|[A-Za-z])>(?!>)")
BRACED = lazy_re(r"(?<![${])\{ ?[A-Za-z][\w ]{0,60}\}(?!\})")
FIELD = lazy_re(r"\{[a-z_][a-z\d_]*\}")
"""Of Python's str.format."""
GAP = lazy_re(f"{BRACED.pattern}|{ANGLED.pattern}")
