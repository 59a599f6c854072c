"""Write gpudoctor/knowledge/refusals/*.txt: each `raise` and `assert` of a program's check of its own options, as a
condition of gpudoctor.lint.conditions, with its message: `python docs/refusal_rows.py FOLDER`.

FOLDER holds the sources, fetched by hand: megatron.py (megatron/training/arguments.py), axolotl/*.py (axolotl's
utils/schemas), transformers/*.py (training_args.py), llamafactory/*.py (hparams).
Not shipped. What a condition asks that is no option (a call, an import, a version) takes its whole row away, and so
does a name that the program itself changes before.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent / "gpudoctor" / "knowledge" / "refusals"
ROOTS = frozenset(("args", "self", "data", "training_args", "model_args", "data_args", "finetuning_args"))
COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "==",
           ast.IsNot: "!=", ast.In: "in", ast.NotIn: "not in"}  # fmt: skip
OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}
LONGEST = 400


class Not(Exception):
    """It cannot be said as a condition."""


class Rows:
    def __init__(self) -> None:
        self.rows: dict[str, str] = {}
        self.changed: set[str] = set()
        self.known: frozenset[str] = frozenset()
        """The options that there are, where they are known."""

    def name(self, node: ast.expr, names: dict[str, str]) -> str:
        """The option that an expression is; "" of the whole."""
        match node:
            case ast.Name(id) if id in names:
                return names[id]
            case ast.Name(id) if id in ROOTS:
                return ""
            case ast.Attribute(inner, attr):
                return f"{self.name(inner, names)}.{attr}".lstrip(".")
            case ast.Subscript(inner, ast.Constant(str(key))) | ast.Call(
                ast.Attribute(inner, "get"), [ast.Constant(str(key)), *_]
            ):
                return f"{self.name(inner, names)}.{key}".lstrip(".")
            case ast.Call(ast.Name("getattr"), [inner, ast.Constant(str(key)), *_]):
                return f"{self.name(inner, names)}.{key}".lstrip(".")
            case ast.BoolOp(ast.Or(), [inner, ast.Dict([], [])]):
                return self.name(inner, names)
        raise Not

    def say(self, node: ast.expr, names: dict[str, str]) -> str:
        match node:
            case ast.Constant(value) if value is None or isinstance(value, (str, int, float, bool)):
                return repr(value)
            case ast.Attribute(ast.Name("IntervalStrategy" | "SaveStrategy" | "SchedulerType"), word):
                return repr({"REDUCE_ON_PLATEAU": "reduce_lr_on_plateau"}.get(word, word.lower()))
            case ast.BoolOp(op, values) if not isinstance(values[-1], ast.Dict):
                return (
                    "("
                    + (" and " if isinstance(op, ast.And) else " or ").join(self.say(v, names) for v in values)
                    + ")"
                )
            case ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), inner)):
                return self.say(inner, names)
            case ast.UnaryOp(ast.Not(), inner):
                return f"not {self.say(inner, names)}"
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
                return f"-{value}"
            case ast.BinOp(left, op, right) if type(op) in OPERATORS:
                return f"({self.say(left, names)} {OPERATORS[type(op)]} {self.say(right, names)})"
            case ast.Compare(left, ops, comparators):
                return self.compared(left, ops, comparators, names)
            case ast.List(items) | ast.Tuple(items) | ast.Set(items):
                words = [self.say(item, names) for item in items if isinstance(item, ast.Constant)]
                if len(words) == len(items):
                    return "(" + ", ".join(words) + ",)"
                raise Not
        name = self.name(node, names)
        if not name or name.split(".")[0] in self.changed or not all(map(str.isidentifier, name.split("."))):
            raise Not
        return name

    def compared(
        self, left: ast.expr, ops: Sequence[ast.cmpop], others: Sequence[ast.expr], names: dict[str, str]
    ) -> str:
        parts = []
        for op, right in zip(ops, others, strict=True):
            if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, ast.Name) and right.id in ROOTS:
                if not isinstance(left, ast.Constant):
                    raise Not
                parts.append(("not " if isinstance(op, ast.NotIn) else "") + f"told({left.value!s})")
            else:
                parts.append(_words(self.say(left, names), COMPARE[type(op)], self.say(right, names)))
            left = right
        return parts[0] if len(parts) == 1 else "(" + " and ".join(parts) + ")"

    def body(self, lines: Sequence[ast.stmt], above: list[str] | None, names: dict[str, str]) -> None:
        """`above`: what holds where these lines are come to; None where that cannot be said."""
        for line in lines:
            if isinstance(line, ast.If):
                try:
                    test: str | None = self.say(line.test, names)
                except Not:
                    test = None
                self.body(line.body, [*above, test] if above is not None and test else None, dict(names))
                self.body(line.orelse, [*above, f"not {test}"] if above is not None and test else None, dict(names))
                if isinstance(line.body[-1], (ast.Return, ast.Continue)):  # behind a raise it has ended anyway
                    above = [*above, f"not {test}"] if above is not None and test else None
            elif isinstance(line, ast.Assert):
                self.row(above, line.test, line.msg, names)
            elif isinstance(line, ast.Raise) and isinstance(line.exc, ast.Call) and line.exc.args:
                self.row(above, None, line.exc.args[0], names)
            elif isinstance(line, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
                self.assigned(line, names)
            elif isinstance(line, (ast.For, ast.While, ast.With, ast.Try)):
                for inner in ast.walk(line):
                    if isinstance(inner, (ast.Assign, ast.AugAssign)):
                        self.assigned(inner, names)

    def assigned(self, line: ast.Assign | ast.AugAssign | ast.AnnAssign, names: dict[str, str]) -> None:
        for target in line.targets if isinstance(line, ast.Assign) else [line.target]:
            if isinstance(target, ast.Name):
                names.pop(target.id, None)
                try:
                    if line.value is not None and (name := self.name(line.value, names)):
                        names[target.id] = name
                except Not:
                    pass
            elif isinstance(target, (ast.Attribute, ast.Subscript)):
                try:
                    name = self.name(target, names)
                    made = line.value.args if isinstance(line.value, ast.Call) else []
                    if len(made) != 1 or self.name(made[0], names) != name:  # IntervalStrategy(self.eval_strategy)
                        self.changed.add(name.split(".")[0])
                except Not:
                    pass

    def row(
        self, above: list[str] | None, test: ast.expr | None, message: ast.expr | None, names: dict[str, str]
    ) -> None:
        if above is None or (not above and test is None):
            return
        try:
            if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                own = [self.say(test.operand, names)]
            else:
                own = [f"not {self.say(test, names)}"] if test is not None else []
            parts = [*above, *own]
        except Not:
            return
        condition = " and ".join(f"({part})" if part.startswith("not (") or " or " in part else part for part in parts)
        told = {node.id for node in ast.walk(ast.parse(condition)) if isinstance(node, ast.Name)}
        says = " ".join(_text(message).split())
        unknown = {name for name in told - {"told"} if self.known and name not in self.known}
        if told - {"told"} and not unknown and says and len(condition) < LONGEST:
            self.rows.setdefault(condition, says[:200])


READ = {"'no'": "False", "'off'": "False", "'none'": "None", "'yes'": "True", "'on'": "True"}
"""Words that a file's reader takes for something else (conditions.value_of_word)."""


def _words(left: str, how: str, right: str) -> str:
    if right in READ and how in ("==", "!="):
        return f"{left} {'in' if how == '==' else 'not in'} ({right}, {READ[right]})"
    if how in ("in", "not in") and any(f"{word}," in right for word in READ):
        right = right[:-1] + " ".join(f" {value}," for word, value in READ.items() if f"{word}," in right) + ")"
    return f"{left} {how} {right}"


def _text(node: ast.expr | None) -> str:
    match node:
        case ast.Constant(str(value)):
            return value
        case ast.JoinedStr(values):
            return "".join(_text(value) for value in values)
        case ast.FormattedValue():
            return "..."
        case ast.BinOp(left, _, right):
            return _text(left) + _text(right)
        case ast.Call(ast.Attribute(inner, "format" | "join")):
            return _text(inner)
    return ""


def functions(tree: ast.Module, *wanted: str) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (not wanted or node.name in wanted):
            yield node


def fields(tree: ast.Module) -> dict[str, object]:
    """The defaults of a dataclass's fields, and of arguments whose option is spelled as their name."""
    given: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            value: ast.expr | None = node.value
            if isinstance(value, ast.Call):
                value = next((word.value for word in value.keywords if word.arg == "default"), None)
            if isinstance(value, ast.Constant):
                given[node.target.id] = value.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            words = {word.arg: word.value for word in node.keywords}
            flags = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            if "dest" in words or not flags:
                continue
            action = words.get("action")
            default: ast.expr | None = words.get("default")
            name = flags[0].lstrip("-").replace("-", "_")
            if isinstance(action, ast.Constant) and action.value == "store_true" and default is None:
                given[name] = False
            elif isinstance(default, ast.Constant):
                given[name] = default.value
            elif default is None and action is None:
                given[name] = None
    return given


def _declared(trees: Sequence[ast.Module]) -> Iterator[str]:
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield node.target.id


def write(program: str, rows: Rows, defaults: dict[str, object], *, all_none: bool = False) -> None:
    used = {node.id for row in rows.rows for node in ast.walk(ast.parse(row)) if isinstance(node, ast.Name)}
    lines = [
        f"= {name} {READ.get(repr(value), repr(value))}"
        for name, value in sorted(defaults.items())
        if name in used and not all_none
    ]
    lines += ["= * None"] if all_none else []
    lines += [f"{condition}\t{says}" for condition, says in rows.rows.items()]
    HERE.mkdir(exist_ok=True)
    (HERE / f"{program}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(program, len(rows.rows), "rows")


def main(folder: Path) -> None:
    tree = ast.parse((folder / "megatron.py").read_text())
    rows = Rows()
    for function in functions(tree, "validate_args"):
        rows.body(function.body, [], {})
    write("megatron", rows, fields(tree))
    for program, wanted in (
        ("axolotl", ()), ("transformers", ("__post_init__", "_validate_args")),
        ("llamafactory", ("__post_init__", "get_train_args", "_verify_model_args")),
    ):  # fmt: skip
        trees = [ast.parse(path.read_text()) for path in sorted((folder / program).rglob("*.py"))]
        rows = Rows()
        defaults: dict[str, object] = {}
        if program == "transformers":
            # eval_strategy has another name in earlier releases, fp16 stands in DeepSpeed's file too: W05 and its like
            rows.changed |= {"eval_strategy", "fp16", "bf16"}
        if program == "axolotl":
            rows.known = frozenset(_declared(trees)) - {"capabilities", "env_capabilities"}
            names = sorted((folder / program).rglob("*.py"))
            trees = [tree for tree, path in zip(trees, names, strict=True) if path.stem in ("validation", "config")]
        for tree in trees:
            defaults = fields(tree) | defaults
            if program == "axolotl":  # a validator sees what another one has put there
                for function in functions(tree):
                    rows.body(function.body, None, {})
        for tree in trees:
            for function in functions(tree, *wanted):
                rows.body(function.body, [], {})
        write(program, rows, defaults, all_none=program == "axolotl")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
