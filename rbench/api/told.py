"""Tell the other processes of a RUN what this one does: its progress goes to the user and into its heartbeats."""

from __future__ import annotations

from datetime import datetime

from rbench.progress import Progress
from rbench.system.members import Member


class Told:
    """A `Progress` that shows what `shown` shows, and says it to those who look at the RUN (`rbench status`)."""

    def __init__(self, shown: Progress, member: Member) -> None:
        self._shown, self._member = shown, member

    def start(self, name: str, index: int, count: int) -> None:
        since = datetime.now().astimezone().isoformat(timespec="seconds")
        self._member.say(now=True, job=name, since=since, done=0, total=0)
        self._shown.start(name, index, count)

    def update(self, done: int, total: int, text: str = "") -> None:
        self._member.say(done=done, total=total)
        self._shown.update(done, total, text)

    def finish(self, status: str) -> None:
        self._member.say(job=None)
        self._shown.finish(status)

    def note(self, text: str) -> None:
        self._shown.note(text)
