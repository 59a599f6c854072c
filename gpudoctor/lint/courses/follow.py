"""One rank's way through a program: statements."""

import ast
import builtins
from collections.abc import Sequence
from typing import Literal

from gpudoctor.lint.courses.events import CourseCollective, CourseFork, CourseRound, Event, Leave
from gpudoctor.lint.courses.expressions import OF_RANKS
from gpudoctor.lint.courses.own_checks import RefusingCourse
from gpudoctor.lint.courses.values import (
    ClassOf,
    FollowedFunction,
    Names,
    OpenValue,
    Thing,
    Value,
    is_known,
    is_own,
    key_of,
    truth,
    unknown,
)
from gpudoctor.lint.python_code import FUNCTIONS
from gpudoctor.lint.python_text import walked

Way = Literal["", "break", "continue", "return", "end"]
"""How a statement is left."""
LONGEST = 16
"""Items of a loop that is followed one by one."""
Written = dict[tuple[int, str], tuple[Names, Value]]


class RankCourse(RefusingCourse):
    """See the package."""

    def program(self) -> None:
        """The module's own statements."""
        self.block(self.code.tree.body, (self.module,))

    def block(self, statements: Sequence[ast.stmt], frame: tuple[Names, ...]) -> Way:
        for statement in statements:
            way = self.statement(statement, frame)
            if way:
                return way
        return ""

    def statement(self, node: ast.stmt, frame: tuple[Names, ...]) -> Way:
        self.step()
        if isinstance(node, FUNCTIONS):
            self.put(frame[0], node.name, FollowedFunction(node, frame))
            if any(isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "on"
                   for each in node.decorator_list) and self.code.brings("ignite"):  # fmt: skip
                given = {each.arg: unknown(each) for each in node.args.args}
                self.inlined(FollowedFunction(node, frame), given, node)
        elif isinstance(node, ast.ClassDef):
            self.put(frame[0], node.name, ClassOf(node, frame))
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            self._assign(node, frame)
        elif isinstance(node, ast.Expr):
            self.value(node.value, frame)
            if isinstance(node.value, ast.Call) and self.ends(node.value, frame):
                return "end"
        elif isinstance(node, ast.If):
            return self._choice(node, node.test, node.body, node.orelse, frame)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            return self._loop(node, frame)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            return self._with(node, 0, frame)
        elif isinstance(node, ast.Try):
            before = len(self.events)
            self.tries += bool(node.handlers)
            way = self.block(node.body, frame)
            self.tries -= bool(node.handlers)
            waits = any(each.call == "backward" for each in collectives(self.events[before:]))
            steps = any(each.call.endswith("forward") for each in collectives(self.events[before:]))
            way = way or self.block(node.orelse, frame)
            for handler in node.handlers:
                events, left, written = self._apart(handler.body, frame)
                self._may_be_written(handler, written)
                if waits and (left != "end" or _goes_on(events)) and _is_of_data(handler):
                    self.do("caught", handler.type or ast.Constant("", lineno=handler.lineno, col_offset=0))
                elif steps and not waits and left in ("continue", "break") and _is_of_data(handler, True):
                    # A batch of this rank's own decides whether it goes on to what the others wait in.
                    place = handler.type or node
                    self.events.append(
                        CourseFork(hash(("raised", id(handler))), place, (Leave(left, place),), (), True)
                    )
            return self.block(node.finalbody, frame) or ("" if way == "end" and node.handlers else way)
        elif isinstance(node, ast.Return):
            self.results.append(self.value(node.value, frame) if node.value is not None else None)
            return "return"
        elif isinstance(node, ast.Raise):
            self.raises(node, frame)
            return "end"
        elif isinstance(node, ast.Break):
            return "break"
        elif isinstance(node, ast.Continue):
            return "continue"
        elif isinstance(node, ast.Assert):
            if truth(self.value(node.test, frame)) is False:
                self.fails(node.test, node.test, node.msg, frame)
        elif isinstance(node, ast.Delete):
            pass
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.outside.setdefault(id(frame[0]), set()).update(node.names)
        elif isinstance(node, ast.Match):
            subject = self.value(node.subject, frame)
            for case in node.cases:
                events, _, written = self._apart(case.body, frame)
                self.events.append(CourseFork(hash((key_of(subject), id(case))), case, tuple(events), ()))
                self._may_be_written(case, written)
        return ""

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, frame: tuple[Names, ...]) -> None:
        if node.value is None:
            return
        value = self.value(node.value, frame)
        if isinstance(node, ast.AugAssign):
            old = self.value(node.target, frame)
            value = self.of_two(node, node.op, old, value)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            self.store(target, value, frame)

    def _choice(
        self, node: ast.AST, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt], frame: tuple[Names, ...]
    ) -> Way:
        value = self.value(test, frame)
        decided = truth(value)
        if decided is not None:
            self.choices.append(test)
            way = self.block(body if decided else orelse, frame)
            self.choices.pop()
            return way
        return self._fork(node, value, body, orelse, frame)

    def _fork(
        self, node: ast.AST, test: Value, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt], frame: tuple[Names, ...]
    ) -> Way:
        key = key_of(test)
        of_ranks = isinstance(node, ast.If) and OF_RANKS.search(ast.unparse(node.test)) is not None
        below = hash((key, self.seat.rank)) if of_ranks else key
        self.conditions.append(below)
        done = len(self.deeds)
        yes, way, written = self._apart(body, frame)
        if is_own(test) and isinstance(node, ast.If) and any(deed.what == "save" for deed in self.deeds[done:]):
            self.do("saved by its own", node.test)
        self.conditions[-1] = hash(("not", below))
        no, other_way, other = self._apart(orelse, frame)
        if way and not other_way:
            # what follows stands below it, to the end of the function or of the loop's turn
            self.ended.update(self.conditions[-1:] if way == "end" else ())
        elif other_way and not way:
            self.conditions[-1] = below
            self.ended.update((below,) if other_way == "end" else ())
        else:
            self.conditions.pop()
        self.events.append(CourseFork(key, node, tuple(yes), tuple(no), is_own(test)))
        if way and not other_way:
            self._take(other)
        elif other_way and not way:
            self._take(written)
        else:
            for place in written.keys() | other.keys():
                names, name = (written.get(place) or other[place])[0], place[1]
                before = names.get(name, None)
                one, two = written.get(place, (names, before))[1], other.get(place, (names, before))[1]
                same = one is two or (is_known(one) and is_known(two) and one == two and type(one) is type(two))
                self.put(
                    names, name, one if same or two is None else two if one is None else unknown(node, test, one, two)
                )
        return (
            (way if way == other_way else "return" if {way, other_way} == {"return", "end"} else "end")
            if (way and other_way)
            else ""
        )

    def _apart(self, body: Sequence[ast.stmt], frame: tuple[Names, ...]) -> tuple[list[Event], Way, Written]:
        """What would happen there; what it has written is taken back, and told."""
        events, self.events = self.events, []
        sure, self.is_sure = self.is_sure, False
        journal, self.journal = self.journal, {}
        self.depth += 1
        kept, above = len(self.results), len(self.conditions)
        way = self.block(body, frame) if self.depth < self.DEEPEST else ""
        del self.conditions[above:]
        self.depth -= 1
        if way == "return" and len(self.results) > kept + 1:
            del self.results[kept:-1]
        inner, self.events = self.events, events
        if way:
            inner.append(Leave(way, body[-1] if body else self.code.tree))
        written: Written = {place: (names, names.get(place[1])) for place, (names, _) in self.journal.items()}
        for (_, name), (names, old) in self.journal.items():
            if old is self.ABSENT:
                names.pop(name, None)
            else:
                names[name] = old
        self.journal, self.is_sure = journal, sure
        return inner, way, written

    def _take(self, written: Written) -> None:
        for (_, name), (names, value) in written.items():
            self.put(names, name, value)

    def _may_be_written(self, node: ast.AST, written: Written) -> None:
        for (_, name), (names, value) in written.items():
            before = names.get(name)
            if before is not value:
                self.put(names, name, unknown(node, name, before, value))

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, frame: tuple[Names, ...]) -> Way:
        called = node.iter if isinstance(node, (ast.For, ast.AsyncFor)) else None
        if isinstance(called, ast.Call) and isinstance(called.func, ast.Name) and isinstance(node, ast.For):
            made = self.value(called.func, frame)
            if isinstance(made, FollowedFunction) and _is_generator(made.node) and len(self.yields) < 3:
                return self._of_generator(node, called, frame)
        items: Value = self.value(node.iter, frame) if not isinstance(node, ast.While) else None
        rounds = len(items) if isinstance(items, (range, list, tuple)) else None
        if isinstance(items, range):
            items = list(items[: LONGEST + 1])
        if isinstance(items, (list, tuple)) and len(items) <= LONGEST and not isinstance(node, ast.While):
            before = len(self.events)
            for item in items:
                self.store(node.target, item, frame)
                way = self._turn(node, frame)
                if way in ("return", "end"):
                    return way
                if way == "break":
                    return ""
            if collectives(self.events[before:]):
                self.do("rounds", node.iter, len(items))
            return self.block(node.orelse, frame)
        if isinstance(items, Thing) and items.kind == "progress":
            items = items.fields["items"]
        if isinstance(items, Thing) and items.fields.get("draws together") is True and not isinstance(node, ast.While):
            self.meet("the prepared loader's shuffling", node.iter)
        another = "Process(" in self.code.text
        if isinstance(node, (ast.For, ast.AsyncFor)) and another:
            # The body is followed twice: the two processes that it starts are handed two items.
            self.store(node.target, unknown(node, "another item", items), frame)
        elif not isinstance(node, ast.While):
            self._next_item(node, items, frame)
        kept, done = len(self.results), len(self.deeds)
        _, _, written = self._apart(node.body, frame)
        if not isinstance(node, ast.While) and another:
            self._next_item(node, items, frame)
        del self.results[kept:], self.deeds[done:]
        for (_, name), (names, value) in written.items():
            old = names.get(name)
            if old is not value and not (isinstance(old, (FollowedFunction, ClassOf)) or old is None):
                self.put(names, name, unknown(node, name, old, value))
        outer, self.events = self.events, []
        sure = self.is_sure
        if isinstance(node, ast.While):
            self.value(node.test, frame)
        way = self._turn(node, frame)
        inner, self.events = self.events, outer
        self.is_sure = sure
        if collectives(inner) and rounds is not None and isinstance(node, ast.For):
            self.do("rounds", node.iter, rounds)
        if self.is_marked(items, "dealt") and collectives(inner) and way not in ("return", "end"):
            self.do("uneven rounds", node.iter if not isinstance(node, ast.While) else node.test)
        of_texts = isinstance(items, Thing) and items.fields.get("of texts") is True
        if collectives(inner) and of_texts and not isinstance(node, ast.While):
            self.do("any order", node.iter)
        self.events.append(CourseRound(node, tuple(inner)))
        for (_, name), (names, _) in written.items():
            if isinstance(names.get(name), OpenValue) or is_known(names.get(name)):
                self.put(names, name, unknown(node, name, "after", names.get(name)))
        return way if way in ("return", "end") else self.block(node.orelse, frame)

    def _turn(self, node: ast.For | ast.AsyncFor | ast.While, frame: tuple[Names, ...]) -> Way:
        """The body once."""
        self.loops.append(node)
        above = len(self.conditions)
        way = self.block(node.body, frame)
        del self.conditions[above:]
        self.loops.pop()
        return way

    def _of_generator(self, node: ast.For, called: ast.Call, frame: tuple[Names, ...]) -> Way:
        """Its loop is the loop: what it yields is the body's turn. What leaves the body is not followed further."""

        def turn(item: Value) -> None:
            yields, self.yields = self.yields, []
            self.store(node.target, item, frame)
            self._turn(node, frame)
            self.yields = yields

        self.yields.append(turn)
        self.value(called, frame)
        self.yields.pop()
        return self.block(node.orelse, frame)

    def _next_item(self, node: ast.For | ast.AsyncFor, items: Value, frame: tuple[Names, ...]) -> None:
        if isinstance(items, Thing) and items.kind == "parameters":
            last = node.target.elts[-1] if isinstance(node.target, ast.Tuple) else node.target
            self.store(last, Thing("parameter", key_of(unknown(node, items)), {"of": items.fields["of"]}, node), frame)
            return
        item = self._items_of(node, items)
        dealt = isinstance(items, OpenValue) and _is_dealt(node.iter)
        item = OpenValue(unknown(item).key, True) if dealt else item
        counts = isinstance(items, Thing) and items.kind == "counted" and items.fields["first"] is True
        counts = counts or (dealt and isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) == "enumerate")
        if counts and isinstance(node.target, ast.Tuple) and len(node.target.elts) == 2:
            self.store(node.target.elts[0], unknown(node, "count"), frame)
            self.store(node.target.elts[1], item, frame)
        else:
            self.store(node.target, item, frame)
        counted = items.fields["of"] if isinstance(items, Thing) and items.kind == "counted" else [items]
        for each in counted:
            if isinstance(each, Thing) and each.kind == "loader":
                self.do("goes through", node.iter, each)

    def _with(self, node: ast.With | ast.AsyncWith, place: int, frame: tuple[Names, ...]) -> Way:
        """A context manager of the text is followed to its `yield`, which is the block."""
        if place == len(node.items):
            return self.block(node.body, frame)
        item = node.items[place]
        called = item.context_expr
        made = self.value(called.func, frame) if isinstance(called, ast.Call) else None
        if isinstance(made, FollowedFunction) and any(isinstance(each, ast.Yield) for each in walked(made.node)):
            way: list[Way] = []

            def block(given: Value) -> None:
                if item.optional_vars is not None:
                    self.store(item.optional_vars, given, frame)
                way.append(self._with(node, place + 1, frame))

            self.yields.append(block)
            self.value(called, frame)
            self.yields.pop()
            return way[0] if way else ""
        value = self.value(called, frame)
        if item.optional_vars is not None:
            self.store(item.optional_vars, value, frame)
        grad, self.has_grad = (
            self.has_grad,
            self.has_grad and "no_grad" not in ast.unparse(called) and "inference_mode" not in (ast.unparse(called)),
        )
        syncs, self.syncs = self.syncs, self.syncs and not (isinstance(value, Thing) and value.kind == "no sync")
        way_of_body = self._with(node, place + 1, frame)
        self.has_grad, self.syncs = grad, syncs
        return way_of_body

    def inlined(self, function: FollowedFunction, given: Names, node: ast.AST) -> Value:
        """What a function of the text gives, called with these."""
        if self.calls_open.count(id(function.node)) > 1 or len(self.calls_open) > self.DEEPEST:
            return unknown(node, "deep", *given.values())
        self.calls_open.append(id(function.node))
        frame = (dict(given), *function.outer)
        outer, self.events = self.events, []
        kept, above = len(self.results), len(self.conditions)
        grad = self.has_grad
        if isinstance(function.node, ast.Lambda):
            result = self.value(function.node.body, frame)
        else:
            decorated = " ".join(ast.unparse(each) for each in function.node.decorator_list)
            self.has_grad = grad and "no_grad" not in decorated and "inference_mode" not in decorated
            way = self.block(function.node.body, frame)
            results, self.results[kept:] = self.results[kept:], []
            result = (
                results[0]
                if len(results) == 1 and way == "return"
                else unknown(node, "result", *results)
                if results
                else None
            )
        self.has_grad = grad
        del self.conditions[above:]
        inner, self.events = self.events, outer
        if inner:
            self.events.append(CourseRound(node, tuple(inner), is_loop=False))
        self.calls_open.pop()
        return result


def _is_generator(function: ast.AST) -> bool:
    return any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in walked(function))


def _is_dealt(items: ast.expr) -> bool:
    """A function of another file, told rank and world size, gives this rank's part."""
    if isinstance(items, ast.Call) and ast.unparse(items.func) in ("enumerate", "tqdm") and items.args:
        items = items.args[0]
    if not isinstance(items, ast.Call) or ast.unparse(items.func) in ("range", "zip"):
        return False
    words = " ".join(ast.unparse(each) for each in (*items.args, *(keyword.value for keyword in items.keywords)))
    return "rank" in words and ("world" in words or "replicas" in words)


def _is_of_data(handler: ast.ExceptHandler, of_program: bool = False) -> bool:
    """It catches what a batch or the memory of one GPU raises; `of_program`: or an exception that is not Python's."""
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {ast.unparse(each).rpartition(".")[2] for each in types if each is not None}
    if of_program and any(not hasattr(builtins, name) for name in names):
        return True
    return handler.type is None or not names.isdisjoint(
        ("BaseException", "Exception", "RuntimeError", "OutOfMemoryError", *(("ValueError",) if of_program else ()))
    )


def _goes_on(events: Sequence[Event]) -> bool:
    """Some way through it leaves it otherwise than by an exception."""
    return any(
        each.how != "end"
        if isinstance(each, Leave)
        else isinstance(each, CourseFork) and (_goes_on(each.yes) or _goes_on(each.no))
        for each in events
    )


def collectives(events: Sequence[Event]) -> list[CourseCollective]:
    """All in it, on whatever way."""
    found: list[CourseCollective] = []
    for event in events:
        if isinstance(event, CourseCollective):
            found.append(event)
        elif isinstance(event, CourseFork):
            found += collectives(event.yes) + collectives(event.no)
        elif isinstance(event, CourseRound):
            found += collectives(event.events)
    return found
