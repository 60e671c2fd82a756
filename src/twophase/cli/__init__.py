"""The command line: one thin file a verb. Heavy imports live inside the verbs that need them."""

import gc
import io
import os
import pickle
import sys
import warnings
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated

import typer

from twophase import __version__
from twophase.ending import INTERRUPTED, ended_by, sigterm_as_ctrl_c
from twophase.errors import InputError

# A verb is a function in a module of its name, which imports light things at its top.
VERBS = (
    *("advise", "bench", "calibrate", "conformance", "counters", "diagnose", "fit", "generate", "hardware"),
    *("lint", "model", "phases", "plan", "probe", "report", "serve", "simulate", "tokenize"),
)

LONGEST_LINE = 600  # of an error's letters

# What imports make lives on: looking for garbage among it takes a tenth of a short verb's time.
gc.set_threshold(100_000)

app = typer.Typer(
    name="twophase",
    add_completion=False,
    rich_markup_mode=None,  # rich costs a third of the time that --help may take
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the verb; say what is wrong with bad input in one line on stderr, and exit with status 2."""
    warnings.formatwarning = lambda message, *rest, **more: f"twophase: {message}\n"
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a terminal that can't show a letter still gets the rest
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    try:
        with sigterm_as_ctrl_c():
            register([verb for verb in VERBS if verb == sys.argv[1]] or VERBS)
            status = app(standalone_mode=False)
    except InputError as error:
        fail(str(error), 2)
    except BrokenPipeError:  # the reader went away: `twophase phases | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:  # a full disk, a closed stream
        fail(f"{error.filename or 'output'}: {error.strerror or error}", 1)
    except pickle.UnpicklingError:
        fail("the cache of compiled kernels is damaged: delete the folder twophase in ~/.cache", 2)
    except MemoryError:
        fail("there is not enough memory: give a smaller load, or fewer replicas", 1)
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    except Exception as error:
        if not hasattr(error, "format_message"):  # not the parser's own usage error
            raise
        fail(error.format_message(), 2)
    if status == INTERRUPTED:
        said, status = ended_by()
        if status == INTERRUPTED:
            print(file=sys.stderr)  # behind the terminal's ^C
        fail(said, status)
    sys.exit(status or 0)


def fail(line: str, status: int) -> None:
    """One line on stderr, without what a terminal might act upon."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in " ".join(line.split()))
    if len(shown) > LONGEST_LINE:
        shown = f"{shown[: LONGEST_LINE // 2]} ... {shown[-LONGEST_LINE // 2 :]}"
    try:
        print(f"twophase: {shown}", file=sys.stderr)
    except OSError:  # nobody can be told: the status still is
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    sys.exit(status)


def open_closed_streams() -> None:
    """Python has None for a stream that is closed from the start (`twophase lint FILE >&-`)."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"twophase {__version__}")
        raise typer.Exit


@app.callback()
def twophase(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Where an LLM's time goes, prefill or decode, and how far it is from the floor the hardware allows."""


def register(verbs: Iterable[str]) -> None:
    """Import these verbs' modules, of which a known verb needs its own alone."""
    app.registered_commands.clear()
    for verb in verbs:
        app.command()(getattr(import_module(f"twophase.cli.{verb}"), verb))
