"""Asking a meter: a command of anybody's, run once a scenario, or our own in this process."""

import asyncio
import json
import shlex
from collections.abc import Sequence
from time import monotonic

from twophase.errors import InputError
from twophase.meter.conformance.scenario import Measured
from twophase.meter.exchange import Pool, exchange
from twophase.meter.reading import read_reply
from twophase.meter.records import Call, Endpoint, Target

PATHS: dict[Endpoint, str] = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
STREAM = {"model": "known", "stream": True, "max_tokens": 16, "stream_options": {"include_usage": True}}
PROMPTS: dict[Endpoint, dict[str, object]] = {
    "chat": {"messages": [{"role": "user", "content": "Say sixteen words."}]},
    "completions": {"prompt": "Say sixteen words."},
}


def read_command(words: Sequence[str]) -> list[str]:
    """The command's words, given one by one or as one line, with {url} in them."""
    command = shlex.split(words[0]) if len(words) == 1 else list(words)
    if not any("{url}" in each for each in command):
        raise InputError(f"{shlex.join(command)}: say with {{url}} where the command takes the server's URL")
    return command


async def ask_command(command: Sequence[str], url: str, timeout_s: float) -> Measured | str:
    """What the command says of the scenario at this URL; a line on why where it says nothing."""
    words = [each.replace("{url}", url) for each in command]
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(*words, stdin=nothing, stdout=pipe, stderr=pipe)
    except (OSError, ValueError) as error:
        raise InputError(f"{words[0]} can't be run: {getattr(error, 'strerror', None) or error}") from None
    try:
        async with asyncio.timeout(timeout_s):
            out, err = await process.communicate()
    except TimeoutError:
        return f"the command took longer than {timeout_s:g} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return read_answer(out) or f"no JSON object with an outcome on its stdout; {last_line(err)}"


def last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return said[:200] or "nothing on stderr"


def read_answer(out: bytes) -> Measured | None:
    """The last JSON object with an outcome: alone on a line, or the whole of the output."""
    for text in (out, *reversed(out.splitlines())):
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict) and isinstance(said.get("outcome"), str):
            ttft_s, tpot_s, tokens = (number(said.get(key)) for key in ("ttft_s", "tpot_s", "output_tokens"))
            return Measured(said["outcome"], ttft_s, tpot_s, tokens)
    return None


def number(value: object) -> float | None:
    return None if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


async def measured_once(url: str, endpoint: Endpoint, timeout_s: float) -> Measured:
    pool = Pool()
    try:
        return await ask_own(pool, url, endpoint, timeout_s)
    finally:
        await pool.close()


async def ask_own(pool: Pool, url: str, endpoint: Endpoint, timeout_s: float) -> Measured:
    """Our own meter, on one request."""
    body = json.dumps(STREAM | PROMPTS[endpoint]).encode()
    call = Call(0, body, max_tokens=16, prompt_tokens=7)
    target = Target(url, "known", endpoint)
    done = await exchange(pool, call, target, PATHS[endpoint], monotonic(), timeout_s)
    reply = read_reply(done, endpoint)
    return Measured(reply.outcome, reply.ttft_s, reply.tpot_s, reply.output_tokens)
