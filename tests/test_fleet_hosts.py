"""Which nodes a user means (fleet/hosts.py)."""

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor.fleet.fleet import Node
from gpudoctor.fleet.hosts import MAXIMUM_HOSTS, BadHosts, from_hostfile, from_hosts

HARMLESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*|[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?")


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("n01", (Node("n01"),)),
        ("b,a", (Node("b"), Node("a"))),
        ("a b\tc", (Node("a"), Node("b"), Node("c"))),
        ("n[09-11],gpu7", (Node("n09"), Node("n10"), Node("n11"), Node("gpu7"))),
        ("n[1-2,5]", (Node("n1"), Node("n2"), Node("n5"))),
        ("r[1-2]-n[1-2]", (Node("r1-n1"), Node("r1-n2"), Node("r2-n1"), Node("r2-n2"))),
        ("ann@n[1-2]:2222", (Node("n1", user="ann", port=2222), Node("n2", user="ann", port=2222))),
        ("n1.example.org:22", (Node("n1.example.org", port=22),)),
        ("10.0.0.1,10.0.0.2", (Node("10.0.0.1"), Node("10.0.0.2"))),
        ("::1", (Node("::1"),)),
        ("[::1]", (Node("::1"),)),
        ("root@[fe80::1%eth0]:22", (Node("fe80::1%eth0", user="root", port=22),)),
        ("under_score", (Node("under_score"),)),
    ],
)
def test_hosts_in_the_order_in_which_they_are_named(text: str, nodes: tuple[Node, ...]) -> None:
    assert from_hosts(text) == nodes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no host is named"),
        ("a,,b", "two commas in a row"),
        ("a,", "one at an end"),
        ("-oProxyCommand=x", "begins with a letter or digit"),
        ("a;b", "letters, digits"),
        ("$(x)", "letters, digits"),
        ("`x`", "letters, digits"),
        ("a\x00b", "letters, digits"),
        ("a'b", "letters, digits"),
        ("é", "letters, digits"),
        ("a" * 254, "letters, digits"),
        ("-x@a", "'-x' is no user's name"),
        ("@a", "a user's name is missing before @"),
        ("@all", "a user's name is missing before @"),
        ("a!b", "letters, digits"),
        ("a:ssh", "'ssh' is no port"),
        ("a:0", "'0' is no port"),
        ("a:65536", "'65536' is no port"),
        ("a:", "'' is no port"),
        (":::", "no IPv6 address"),
        ("1:2:3", "no IPv6 address"),
        ("fe80::1%-o", "no IPv6 address"),
        ("n[3-1]", "n[3-1]"),
        ("n[", "folded as in"),
        ("n]", "folded as in"),
        ("n[a]", "folded as in"),
        ("n[]", "is no range of numbers"),
        ("n[1-]", "is no range of numbers"),
        ("n[1-2/0]", "n[1-2/0]"),
        ("n[1-100000000]", f"more than {MAXIMUM_HOSTS} hosts"),
        ("n[1-200]x[1-200]", f"more than {MAXIMUM_HOSTS} hosts"),
        ("n[1-99999999999999999999999]", "is no range of numbers"),
        ("a,b,A", "A is named twice"),
        ("n[1-3],n2", "n2 is named twice"),
        ("a:1,a:2", "a is named twice"),
    ],
)
def test_what_is_no_host_is_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(BadHosts) as refused:
        from_hosts(text)
    assert says in str(refused.value)
    assert str(refused.value).isprintable()


def test_a_newline_parts_hosts_and_hides_nothing() -> None:
    assert from_hosts("a\nb") == (Node("a"), Node("b"))
    with pytest.raises(BadHosts):
        from_hosts("a\n-oProxyCommand=x")


def test_hostfile(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# mine\n\nn1 slots=8\nroot@n2:2222\tslots=4 max_slots=8 # rack 2\n  n[3-4]  \n")
    assert from_hostfile(str(file)) == (
        Node("n1", slots=8),
        Node("n2", user="root", port=2222, slots=4),
        Node("n3"),
        Node("n4"),
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no host is named"),
        (b"# nobody\n", "no host is named"),
        (b"a\nb gpus=8\n", "line 2: 'gpus=8' is not understood"),
        (b"a slots=many\n", "line 1: 'slots=many'"),
        (b"a\na\n", "a is named twice"),
        (b"a\n-oProxyCommand=x\n", "line 2"),
        (b"\xff\xfe\x00", "not a text file"),
        (b"a\n" * (3 * 1024 * 1024), "larger than 4 MiB"),
    ],
)
def test_hostfile_that_is_none(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "hosts"
    file.write_bytes(content)
    with pytest.raises(BadHosts, match=re.escape(says)):
        from_hostfile(str(file))


def test_hostfile_that_cannot_be_read(tmp_path: Path) -> None:
    for path, says in ((tmp_path, "is a folder"), (tmp_path / "none", "no such file")):
        with pytest.raises(BadHosts, match=says):
            from_hostfile(str(path))
    with pytest.raises(BadHosts):
        from_hostfile("a\0b")


SYNTAX = st.text(alphabet="an019-._:,[]@%/! \n$;'\\`é\0", max_size=40)


@given(SYNTAX | st.text(max_size=40))
def test_any_text_gives_harmless_names_or_one_line(text: str) -> None:
    try:
        nodes = from_hosts(text)
    except BadHosts as error:
        assert str(error)
        assert "\n" not in str(error)
        return
    assert nodes
    assert len({node.name for node in nodes}) == len(nodes)
    for node in nodes:
        assert HARMLESS.fullmatch(node.name), node
        assert not node.user.startswith("-")
        assert 0 <= node.port <= 65535
    assert from_hosts(",".join(f"[{node.name}]" if ":" in node.name else node.name for node in nodes)) == tuple(
        Node(node.name) for node in nodes
    )


@given(st.binary(max_size=200) | SYNTAX.map(str.encode))
def test_any_hostfile_gives_nodes_or_one_line(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.mktemp("hosts") / "file"
    file.write_bytes(content)
    try:
        assert from_hostfile(str(file))
    except BadHosts as error:
        assert "\n" not in str(error)
