"""The suite run: every scenario played to a meter, and its answers judged."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from twophase.errors import InputError
from twophase.meter.conformance.asking import ask_command, ask_own
from twophase.meter.conformance.judging import Verdict, faults
from twophase.meter.conformance.scenario import Measured, Scenario
from twophase.meter.conformance.server import Player
from twophase.meter.conformance.streams import SCENARIOS
from twophase.meter.exchange import Pool
from twophase.meter.records import Endpoint

APART_S = 0.03  # between the starts of scenarios that are played at once


def judge(player: Player, scenario: Scenario, said: Measured | str) -> Verdict:
    if isinstance(said, str):
        return Verdict(scenario, None, (said,))
    return Verdict(scenario, said, tuple(faults(scenario, said, player.late_s[scenario.name])))


async def run_command(
    command: Sequence[str],
    scenarios: Iterable[Scenario],
    timeout_s: float,
    progress: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """One after the other, so that no scenario disturbs another's times."""
    player = Player(scenarios)
    port = await player.listen()
    verdicts = []
    try:
        for scenario in player.scenarios.values():
            said = await ask_command(command, f"http://127.0.0.1:{port}/S/{scenario.name}", timeout_s)
            verdicts.append(judge(player, scenario, said))
            progress(verdicts[-1])
    finally:
        player.close()
    return verdicts


async def run_own(scenarios: Iterable[Scenario], endpoint: Endpoint, timeout_s: float) -> list[Verdict]:
    """Our own meter in this process, all scenarios at once but for their starts."""
    player, pool = Player(scenarios), Pool()
    port = await player.listen()

    async def ask(number: int, scenario: Scenario) -> Verdict:
        await asyncio.sleep(number * APART_S)
        said = await ask_own(pool, f"http://127.0.0.1:{port}/S/{scenario.name}", endpoint, timeout_s)
        return judge(player, scenario, said)

    try:
        asked = (ask(number, scenario) for number, scenario in enumerate(player.scenarios.values()))
        return list(await asyncio.gather(*asked))
    finally:
        await pool.close()
        player.close()


async def serve(port: int, ready: Callable[[int], None]) -> None:
    """Play whatever is asked for, until cancelled."""
    player = Player(SCENARIOS)
    try:
        ready(await player.listen(port))
    except OSError as error:
        raise InputError(f"--serve {port}: {error.strerror or error}") from None
    try:
        await asyncio.Event().wait()
    finally:
        player.close()
