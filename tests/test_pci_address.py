"""The one form of a PCI address."""

import re

import pytest
from hypothesis import given, strategies as st

from gpudoctor.knowledge import pci_address


@given(st.text())
def test_any_text_is_a_pci_address_or_no_pci_address(text: str) -> None:
    try:
        found = pci_address.normalised(text)
    except ValueError:
        return
    assert re.fullmatch(r"[0-9a-f]{8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", found)
    assert pci_address.normalised(found) == found
    assert pci_address.normalised(pci_address.in_sysfs(found)) == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:5D:00.0", "00000000:5d:00.0"),
        ("0000:5d:00.0", "00000000:5d:00.0"),
        ("5D:00", "00000000:5d:00.0"),
        ("00010000:01:1f.7", "00010000:01:1f.7"),
    ],
)
def test_pci_addresses_have_one_form(text: str, expected: str) -> None:
    assert pci_address.normalised(text) == expected


def test_sysfs_widens_only_large_domains() -> None:
    assert pci_address.in_sysfs("00000000:5d:00.0") == "0000:5d:00.0"
    assert pci_address.in_sysfs("00010000:5d:00.0") == "10000:5d:00.0"
