"""The records of a run as it goes."""

from collections.abc import Callable

from twophase.cost.pass_ import Pass
from twophase.records import Outcome, PassRecord, RequestRecord
from twophase.scheduler.request import Request


class Log:
    """One record of every pass, and one of every request from its arrival on.

    `price` gives a pass's FLOPs and compulsory bytes. Both lists are the caller's to read, and to empty
    where a run has no end.
    """

    def __init__(self, price: Callable[[Pass], tuple[float, float]]) -> None:
        self.passes: list[PassRecord] = []
        self.requests: list[RequestRecord] = []
        self.open: dict[int, RequestRecord] = {}  # those without an outcome, by id
        self._price = price

    def arrived(self, request: Request, moment: float) -> None:
        record = RequestRecord(request.id, moment, request.prompt_tokens)
        self.requests.append(record)
        self.open[request.id] = record

    def scheduled(self, pass_: Pass, moment: float) -> None:
        for span in pass_.spans:
            record = self.open[span.sequence]
            if record.first_scheduled_s is None:
                record.first_scheduled_s = moment
                record.cached_tokens = span.context  # nothing else can have computed them

    def passed(
        self, pass_: Pass, started: float, seconds: float, waiting: int, running: int, used_blocks: int
    ) -> PassRecord:
        flops, bytes_ = self._price(pass_)
        logit_rows = tuple(span.logit_rows for span in pass_.spans)
        record = PassRecord(
            pass_.shape, flops, bytes_, started, seconds, logit_rows, waiting, running, used_blocks
        )
        self.passes.append(record)
        return record

    def produced(self, request_id: int, tokens: int, drafted: int, moment: float) -> None:
        record = self.open[request_id]
        record.token_s.extend([moment] * tokens)
        if drafted:
            record.drafted_tokens += drafted
            record.accepted_tokens += max(0, tokens - 1)

    def finished(self, request_id: int) -> None:
        self.ended(request_id, "finished" if self.open[request_id].token_s else "empty")

    def ended(self, request_id: int, outcome: Outcome, reason: str = "") -> None:
        record = self.open.pop(request_id)
        record.outcome, record.reason = outcome, reason
