import pytest


@pytest.fixture(autouse=True)
def plain_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler's moves as they stand: compiling them would take longer than all these tests."""
    monkeypatch.setattr("twophase.scheduler.compiling.can_compile", lambda: False)
