"""A server without a model, as tests need it: as fast or as slow as they say."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import uvicorn

from twophase.cost.deployment import Deployment
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_spec
from twophase.scheduler.request import Limits
from twophase.server.app import new_app
from twophase.server.engine import Executor, OpenEngine
from twophase.server.filler_text import filler_template, filler_tokenizer
from twophase.server.phases import price_on
from twophase.server.running import bind
from twophase.server.service import Service
from twophase.server.standin import StandIn
from twophase.simulate.clock import PacedClock

VOCABULARY = 1000
PASS_S = 0.001


def stub_engine(
    executor: Executor | None = None,
    *,
    pass_s: float = PASS_S,
    blocks: int = 1000,
    context_length: int = 2000,
    max_sequences: int = 8,
    max_tokens: int = 256,
    vocabulary: int = VOCABULARY,
) -> OpenEngine:
    """Every pass takes `pass_s` seconds."""
    spec = load_spec("qwen3-0.6b")
    return OpenEngine(
        name="stub",
        executor=executor or StandIn(lambda pass_: pass_s, range(vocabulary), 16),
        limits=Limits(
            blocks=blocks,
            context_length=context_length,
            max_sequences=max_sequences,
            max_tokens=max_tokens,
            block_size=16,
        ),
        clock=PacedClock(),
        price=price_on(Deployment(spec), load_accelerator("h100-sxm")),
        tokenizer=filler_tokenizer(vocabulary),
        vocabulary=vocabulary,
        chat_template=filler_template,
        default_output=32,
        facts={"block_size": "16", "num_gpu_blocks": str(blocks)},
    )


@dataclass(frozen=True)
class Running:
    url: str
    service: Service
    http: httpx.Client

    def until(self, holds: Callable[[], bool], seconds: float = 10.0) -> None:
        """Wait for what the server does on its own."""
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, "it never came to hold"
            time.sleep(0.002)

    @property
    def held_blocks(self) -> int:
        return round(self.service.snapshot().kv_usage * self.service.engine.limits.blocks)


@contextmanager
def running(
    engine: OpenEngine,
    *,
    max_queue: int = 100,
    api_keys: tuple[str, ...] = (),
    max_body: int = 1 << 20,
    metrics_prefix: str = "twophase",
) -> Iterator[Running]:
    """The server on a free port, in threads of this process."""
    service = Service(engine, max_queue)
    app = new_app(service, api_keys=api_keys, max_body=max_body, metrics_prefix=metrics_prefix)
    listening = bind("127.0.0.1", 0)
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    listening.listen()
    service.start()
    thread.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        with httpx.Client(base_url=url, timeout=30) as http:
            yield Running(url, service, http)
    finally:
        service.stop(5.0)
        server.should_exit = True
        thread.join(5.0)
        listening.close()
