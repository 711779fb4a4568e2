"""Transactions: what each has sent and acked, and what became of it.

A message of a transaction is seen when its commit was asked for, never before, and never when it was
aborted. If its outcome is not known, the first message that is seen settles it: then all of it is there.
"""

from __future__ import annotations

from milepost.testing.checker.events import Event
from milepost.testing.checker.messages import OK, Messages
from milepost.testing.checker.requests import Ack
from milepost.testing.checker.verdict import Verdict


class Transaction:
    def __init__(self, name: str) -> None:
        self.name = name
        self.sent: list[tuple[Messages, int]] = []
        self.acks: list[Ack] = []
        self.commits: list[int] = []
        """The lines where its commit was asked for, but for requests that were refused: another may have
        been obeyed though its answer was not heard."""
        self.abort_asked = 0
        self.committed = 0
        """The line that shows it: the answer, or the first message of it that was seen."""
        self.is_answered = False
        self.aborted = 0

    @property
    def commit_asked(self) -> int:
        """The latest line that may have committed it; 0 if none."""
        return self.commits[-1] if self.commits else 0


class Transactions:
    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self._all: dict[str, Transaction] = {}

    def of(self, name: str) -> Transaction:
        found = self._all.get(name)
        if found is None:
            found = self._all[name] = Transaction(name)
        return found

    def sent(self, txn: str, messages: Messages, number: int) -> None:
        messages.transactions[number] = txn
        self.of(txn).sent.append((messages, number))

    def end_asked(self, line: int, event: Event) -> None:
        one = self.of(event["txn"])
        if event["op"] == "commit":
            one.commits.append(line)
        else:
            one.abort_asked = line

    def ended(self, line: int, event: Event) -> None:
        one = self.of(event["invoked"]["txn"])
        op, outcome = event["op"], event["is"]
        if op == "commit" and outcome == "ok":
            one.is_answered = True
            if one.aborted:
                text = f"{one.name} was aborted, and its commit was answered"
                self.verdict.add("torn-transaction", text, one.aborted, line)
            self._commit(one, line)
        elif op == "abort" and outcome == "ok":
            if one.committed:
                text = f"{one.name} was committed, and its abort was answered"
                self.verdict.add("torn-transaction", text, one.committed, line)
            elif not one.aborted:
                one.aborted = line
                for ack in one.acks:
                    ack.subscription.ack_aborted(one.abort_asked, ack)
        elif op == "commit" and outcome == "fail":
            one.commits.remove(event["invoked"]["line"])

    def acked(self, line: int, txn: str, ack: Ack, *, is_ok: bool) -> None:
        """The outcome of an ack. Only one that was answered is certainly part of its transaction."""
        one = self.of(txn)
        if not is_ok:
            one.acks.remove(ack)
            return
        ack.is_answered = True
        if one.committed:
            self._commit_ack(one, line, ack)

    def _commit(self, one: Transaction, line: int) -> None:
        if one.committed:
            return
        one.committed = line
        for ack in one.acks:
            if ack.is_answered:
                self._commit_ack(one, line, ack)

    def _commit_ack(self, one: Transaction, line: int, ack: Ack) -> None:
        ack.answered(line)
        if not ack.cumulative:
            ack.subscription.ack_committed(one.name, line, ack.invoked, ack.numbers)

    def seen(self, line: int, messages: Messages, number: int) -> None:
        """A message of a transaction was received or found."""
        one = self.of(messages.transactions[number])
        sent = messages.invoked[number]
        if one.aborted:
            text = f"{one.name} was aborted, and {messages.name_of(number)} is there"
            self.verdict.add("aborted-read", text, one.aborted, line)
        elif not one.commit_asked:
            text = f"{one.name} is open, and {messages.name_of(number)} is there"
            self.verdict.add("dirty-read", text, sent, line)
        else:
            self._commit(one, line)

    def _check_not_committed(self, one: Transaction) -> None:
        """Nothing of it is there: none of its acks may count."""
        for ack in one.acks:
            for number in ack.numbers:
                if drained := ack.subscription.kept_away(number, one.commit_asked):
                    text = f"{one.name} was not committed, and {ack.subscription.name} never got again "
                    text += ack.subscription.messages.name_of(number)
                    self.verdict.add("aborted-ack", text, ack.invoked, drained)

    def finish(self) -> None:
        """All or nothing, as the last scans of its topics show."""
        for one in self._all.values():
            if one.aborted or not one.commit_asked:
                continue
            there: list[int] = []
            absent: list[int] = []
            for messages, number in one.sent:
                if messages.scanned <= max(
                    one.commit_asked, one.committed if one.is_answered else 0
                ):
                    continue
                if messages.stored[number] > messages.scanned:
                    there.append(messages.stored[number])
                elif messages.fates[number] == OK and not messages.is_trimmed(number):
                    absent.append(messages.answered[number])
            if absent and there:
                text = f"{len(there)} messages of {one.name} are there, {len(absent)} are not"
                self.verdict.add("torn-transaction", text, one.commit_asked, there[0], absent[0])
            elif absent and not one.is_answered:
                if len(one.commits) == 1:  # of several each may have had its time
                    self._check_not_committed(one)
            elif absent:
                text = f"nothing is there of {one.name}"
                self.verdict.add("lost", text, absent[0], one.committed)
