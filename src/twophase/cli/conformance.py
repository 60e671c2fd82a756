"""twophase conformance: streams with known truth, held against any meter."""

from typing import TYPE_CHECKING, Annotated

import typer

from twophase.cli.needs import needs
from twophase.cli.options import JsonOption, positive
from twophase.cli.progress import progress_bar
from twophase.errors import InputError
from twophase.meter.records import Endpoint

if TYPE_CHECKING:
    from twophase.meter.conformance.judging import Verdict


def conformance(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND]...", help="A meter's command line, {url} where the server's URL goes."
        ),
    ] = None,
    *,
    own: Annotated[bool, typer.Option("--self", help="Our own meter, in this process.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="This scenario; may be given again.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Name the scenarios.")] = False,
    serve: Annotated[
        int | None, typer.Option(metavar="PORT", help="Only play them, at /S/NAME/v1/..., 0 for any port.")
    ] = None,
    measure: Annotated[
        str | None, typer.Option(metavar="URL", help="Our own meter on one request: a COMMAND to begin from.")
    ] = None,
    endpoint: Annotated[Endpoint, typer.Option(help="The endpoint that our own meter asks.")] = "chat",
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="For one scenario.")] = 60.0,
    json: JsonOption = False,
) -> int:
    """Play awkward and broken streams of known truth to a meter, and tell what it got wrong.

    COMMAND is run once a scenario, in quotes or behind --. It prints one JSON object with
    outcome (finished, failed, rejected, truncated, empty), ttft_s, tpot_s and output_tokens.
    """
    positive("--timeout", timeout)
    asked = [bool(command), own, listed, serve is not None, measure is not None]
    if sum(asked) != 1:
        raise InputError(
            "give one of: a COMMAND with {url} in it, --self, --list, --serve PORT, --measure URL"
        )
    if not 0 <= (serve or 0) < 65536:
        raise InputError(f"--serve {serve}: a port is a number from 0 to 65535")
    if listed:
        from twophase.meter.conformance.streams import chosen
        from twophase.meter.conformance.table import listing, listing_json

        print((listing_json if json else listing)(chosen(only or [])))
        return 0
    if serve is not None:
        return play(serve)
    if measure is not None:
        return measure_one(measure, endpoint, timeout)
    return run_suite(command or [], only or [], endpoint, timeout, json=json)


def play(port: int) -> int:
    with needs("meter"):
        from twophase.meter.conformance.suite import serve
        from twophase.meter.exchange import run

    def ready(port: int) -> None:
        print(f"http://127.0.0.1:{port}/S/NAME/v1/chat/completions plays NAME; Ctrl-C ends it", flush=True)

    run(lambda: serve(port, ready))
    return 0


def measure_one(url: str, endpoint: Endpoint, timeout_s: float) -> int:
    with needs("meter"):
        from twophase.meter.conformance.asking import measured_once
        from twophase.meter.conformance.table import measured_json
        from twophase.meter.exchange import run
    print(measured_json(run(lambda: measured_once(url, endpoint, timeout_s))))
    return 0


def run_suite(
    command: list[str], names: list[str], endpoint: Endpoint, timeout_s: float, *, json: bool
) -> int:
    """Whether a meter, ours where no command is given, is right: 0, or 1 where it is wrong anywhere."""
    with needs("meter"):
        from twophase.meter.conformance.asking import read_command
        from twophase.meter.conformance.streams import chosen
        from twophase.meter.conformance.suite import run_command, run_own
        from twophase.meter.conformance.table import table, to_json
        from twophase.meter.exchange import run

    scenarios = chosen(names)
    if command:
        words = read_command(command)
        with progress_bar() as report:
            done = iter(range(1, len(scenarios) + 1))

            def tell(verdict: "Verdict") -> None:
                report(verdict.scenario.name, next(done) / len(scenarios))

            verdicts = run(lambda: run_command(words, scenarios, timeout_s, tell))
    else:
        verdicts = run(lambda: run_own(scenarios, endpoint, timeout_s))
    print(to_json(verdicts) if json else table(verdicts))
    return 0 if all(each.passed for each in verdicts) else 1
