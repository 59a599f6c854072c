"""Gaps that instructions leave for the reader to fill in: <account>, <YOUR IP>, { partition }."""

import re

ANGLED = re.compile(r"(?<![<\w])<([A-Za-z][\w .:/-]{0,60}\w|[A-Za-z])>(?!>)")
BRACED = re.compile(r"(?<![${])\{ ?[A-Za-z][\w ]{0,60}\}(?!\})")
GAP = re.compile(f"{BRACED.pattern}|{ANGLED.pattern}")
