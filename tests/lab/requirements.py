"""What the lab needs of the machine it runs on: without it a test is skipped with the reason, or fails.

GPUDOCTOR_REQUIRE_LAB=1 turns such skips into failures, so that a CI that is meant to have it all cannot go quietly
blind. Use it at the top of a fixture or test:

    require(shutil.which("gcc"), "no C compiler")
"""

import os

import pytest


def require(present: object, reason: str) -> None:
    """Go on when `present` is true; else skip with the reason, or fail where the lab is required."""
    if present:
        return
    if os.environ.get("GPUDOCTOR_REQUIRE_LAB") == "1":
        pytest.fail(f"GPUDOCTOR_REQUIRE_LAB=1, but: {reason}", pytrace=False)
    pytest.skip(reason)
