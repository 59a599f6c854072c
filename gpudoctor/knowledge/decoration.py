"""What terminals and collectors of output put into lines, and is no word of the program's."""

from gpudoctor.lazy import lazy_re

COLORS = lazy_re(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Terminal sequences: CSI, OSC, and the two-byte ones."""
REPEATED = lazy_re(rb" ?\[repeated \d{1,9}x across cluster\](?: \(Ray deduplicates logs by default\.[^\n]{0,300}\))?")
"""What Ray puts behind a line that it did not repeat (ray/_private/ray_logging)."""
REPEATED_MARK = b"x across cluster]"
TIME = lazy_re(rb"\d{4}-\d\d-\d\d[T _]|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?")
"""A date before a time, and a time, as loggers write them."""
