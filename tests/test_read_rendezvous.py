"""Which proxy variables stand before MASTER_ADDR: their names, never their values."""

import pytest

from gpudoctor.read.rendezvous import proxies_for, read_rendezvous
from gpudoctor.read.system import System
from gpudoctor.snapshot import to_json
from gpudoctor.testing.machines import but, h100_node

PROXY = "http://user:geheim@proxy.example:3128"


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, ()),
        ({"http_proxy": PROXY}, ("http_proxy",)),
        ({"HTTPS_PROXY": PROXY, "http_proxy": " "}, ("HTTPS_PROXY",)),
        ({"http_proxy": PROXY, "no_proxy": "head"}, ()),
        ({"http_proxy": PROXY, "NO_PROXY": "*"}, ()),
        ({"http_proxy": PROXY, "no_proxy": ".cluster.example"}, ("http_proxy",)),
        ({"ftp_proxy": PROXY}, ()),
    ],
)
def test_names_what_applies(environment: dict[str, str], names: tuple[str, ...]) -> None:
    assert proxies_for("head", environment) == names


def test_an_exception_for_a_domain_covers_its_hosts() -> None:
    environment = {"http_proxy": PROXY, "no_proxy": "localhost,.cluster.example"}
    assert proxies_for("head.cluster.example", environment) == ()


def test_the_value_is_not_kept() -> None:
    system = System(environment={"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "http_proxy": PROXY})
    found = read_rendezvous(system)["network.rendezvous"]
    assert found.value.proxies == ("http_proxy",)
    raw = to_json(but(h100_node(), "network.rendezvous", found))
    assert b"geheim" not in raw and b"proxy.example" not in raw
