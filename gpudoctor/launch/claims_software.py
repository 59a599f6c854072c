"""A plan's claims about what is installed: torch, GPUs, the interpreter, the script."""

from gpudoctor.command import command
from gpudoctor.knowledge.wording import counted
from gpudoctor.launch.claims_base import Answers
from gpudoctor.launch.ranks import gpus
from gpudoctor.launch.verified import Verified
from gpudoctor.snapshot import NotRead


class SoftwareClaims(Answers):
    """Each method judges one claim."""

    def versions(self) -> Verified:
        several = len(self.names) > 1
        claim = "All nodes have the same torch and NCCL" if several else f"{self.head} has torch"
        unread = self.without_snapshot()
        for name, snapshot in self.seen.snapshots.items():
            files = snapshot.training.torch_files
            if not files.is_read and files.missing_kind != "absent":
                unread[name] = files.reason
        python = self.plan.python
        return self.decided(
            "versions", claim, unread, command("{:python} -c 'import torch; print(torch.__version__)'", python)
        )

    def gpus_visible(self) -> Verified:
        wanted = {node.name: node.processes for node in self.plan.nodes}
        counts = set(wanted.values())
        claim = (
            f"Every node has {counted(min(counts), 'GPU')} for its ranks"
            if len(counts) == 1
            else "Every node has a GPU for each of its ranks"
        )
        unread = self.without_snapshot()
        short: dict[str, int] = {}
        for name, snapshot in self.seen.snapshots.items():
            try:
                count = gpus(snapshot)
            except NotRead as reason:
                unread[name] = str(reason)
                continue
            if count < wanted.get(name, 0):
                short[name] = count
        if short:
            return self.false(
                "GPUs visible",
                claim,
                "; ".join(
                    f"{name} has {count or 'none'}, {wanted[name]} were planned" for name, count in short.items()
                ),
                "Ranks beyond them end with an invalid device ordinal, and the others wait until their time-out.",
                tuple(short),
                "Plan with what is there (--gpus-per-node), leave the node out, or see what hides its GPUs.",
                *(self.on(name, command("gpudoctor devices")) for name in list(short)[:3]),
            )
        return self.decided("GPUs visible", claim, unread, command("gpudoctor devices"))

    def interpreter(self) -> Verified:
        python = self.plan.python
        claim = f"{python} is on every node" if len(self.names) > 1 else f"{python} is on {self.head}"
        kinds = {name: self.seen.files.get(name, {}).get(python, "") for name in self.names}
        if "/" not in python:
            unread = {
                name: "not on the PATH of a login without a terminal; that of a shell may differ"
                if kind == "missing"
                else self.seen.unseen.get(name, "it was not looked for")
                for name, kind in kinds.items()
                if kind != "file"
            }
            return self.decided("interpreter", claim, unread, command("command -v {:path}", python))
        return self.exist(
            "interpreter",
            claim,
            python,
            kinds,
            "No rank starts there.",
            "Install it there, or name one with --python that every node has.",
        )

    def script_exists(self) -> Verified:
        if not self.script:
            what = self.plan.program[-1] if len(self.plan.program) < 2 else self.plan.program[1]
            return self.unknown(
                "script",
                f"the module {what} can be found on every node",
                dict.fromkeys(self.names[:1], "modules are not looked for"),
                command(
                    "{:python} -c {}", self.plan.python, f"from importlib.util import *; print(find_spec({what!r}))"
                ),
            )
        claim = f"{self.script} is on every node" if len(self.names) > 1 else f"{self.script} is there"
        kinds = {name: self.seen.files.get(name, {}).get(self.script, "") for name in self.names}
        return self.exist(
            "script",
            claim,
            self.script,
            kinds,
            "The ranks of these nodes end at once; the others wait for them."
            if len(self.names) > 1
            else "Every rank ends at once.",
            "Copy the folder there, or put it on a file system that all nodes share."
            if len(self.names) > 1
            else "Start from the folder of the script, or name it by its path.",
        )
