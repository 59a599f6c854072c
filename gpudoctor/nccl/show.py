"""What a test tells while it runs. This base shows nothing; render/nccl_test.py shows it on a terminal."""

from collections.abc import Mapping

from gpudoctor.fleet.fleet import Fleet, Lost
from gpudoctor.fleet.messages import Hello, Launch
from gpudoctor.nccl.rank_messages import AnyRankMessage, Member, Phase, Row, Skipped
from gpudoctor.nccl.result import Compared, IsolationRound, TestResult


class Show:
    """Called by `bandwidth_test` as things happen, always from its own thread."""

    def reaching(self, fleet: Fleet, answers: Mapping[int, Hello | Lost]) -> None:
        """A node has answered or is lost; `found` holds those so far."""

    def paste(self, line: str) -> None:
        """The line to paste on every node that has to join."""

    def joined(self, text: str) -> None:
        """Who has joined: "2/3 nodes: a, b". From any thread."""

    def notice(self, text: str) -> None:
        """What should be known at once: somebody was not let in. From any thread."""

    def step(self, text: str) -> None:
        """What is being done now: "ports between 3 nodes"."""

    def about(self, result: TestResult) -> None:
        """The preflight is passed: on what nodes and how the test is going to run."""

    def started(self, launch: Launch) -> None:
        """The ranks of the one main run are being started."""

    def heard(self, launch: Launch, message: AnyRankMessage) -> None:
        """What a rank has said: to whichever of the following is for it."""
        if isinstance(message, Phase):
            self.phase(message.phase)
        elif isinstance(message, Member):
            self.member(message)
        elif isinstance(message, Row):
            self.row(message)
        elif isinstance(message, Skipped):
            self.skipped(message)

    def phase(self, text: str) -> None:
        """The phase of the launch's first rank: "import torch", "rendezvous"."""

    def member(self, member: Member) -> None:
        """A rank as the world sees it."""

    def row(self, row: Row) -> None:
        """A size was measured."""

    def skipped(self, skipped: Skipped) -> None:
        """A size was not measured."""

    def isolation_round(self, done: IsolationRound) -> None:
        """A round of --find-slow is over."""

    def setting(self, done: Compared) -> None:
        """A run of --compare is over."""

    def close(self) -> None:
        """Nothing more is shown while it runs."""
