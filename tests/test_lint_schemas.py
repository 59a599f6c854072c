"""Documents against the tables of knowledge/schemas: what is told, and where; and the rows of knowledge/refusals."""

from gpudoctor.knowledge.read_refusals import PROGRAMS, rows_of
from gpudoctor.lint.conditions import names_of
from gpudoctor.lint.manifests import read_manifests
from gpudoctor.lint.schemas import problems, schema

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n"


def told(text: str, of: str = "Pod", table: str = "kubernetes") -> list[tuple[str, str, str, str]]:
    (manifest,) = read_manifests(text)
    every = problems(schema(table), of, manifest, text)
    return [(each.what, ".".join(each.path), each.wanted, each.home) for each in every]


def test_fields_kinds_words_and_what_is_required() -> None:
    container = "  containers:\n  - name: c\n    image: i\n"
    assert told(POD + container) == []
    assert told(POD + container + "    comand: [x]\n") == [("unknown", "spec.containers.0.comand", "command", "")]
    assert told(POD + container + "  limits: {cpu: 1}\n")[0][3] == "containers.resources"
    assert told(POD + container + "    command: python\n") == [("kind", "spec.containers.0.command", "a list", "")]
    assert told(POD + container + "    env: [{name: A, value: 8}]\n")[0][:3] == (
        "kind", "spec.containers.0.env.0.value", "a string",
    )  # fmt: skip
    assert told(POD + container + "  restartPolicy: never\n")[0][:2] == ("word", "spec.restartPolicy")
    assert told(POD + "  containers:\n  - image: i\n") == [("required", "spec.containers.0.name", "name", "")]
    assert told(POD + container + "    stdin: ${STDIN}\n") == []


def test_one_of_several_shapes_is_enough() -> None:
    services = "services:\n  a:\n    image: i\n    command: {}\n"
    assert told(services.format("[a, b]"), "Compose", "compose") == []
    assert told(services.format("a b"), "Compose", "compose") == []
    assert told(services.format("{a: b}"), "Compose", "compose")[0][0] == "kind"


def test_pydantic_takes_numbers_in_quotes() -> None:
    text = '{"zero_optimization": {"stage": "2", "reduce_bucket_size": 5e8, "overlap_comm": "true"}}'
    assert told(text, "Config", "deepspeed") == []
    assert told(text.replace("5e8", "1.5"), "Config", "deepspeed")[0][0] == "kind"


def test_rows_that_were_read_from_programs_are_conditions() -> None:
    for program in PROGRAMS:
        rows, _ = rows_of(program)
        assert rows
        assert all(names_of(row.when) and row.says for row in rows)
