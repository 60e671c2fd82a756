"""llama.cpp through llama-cpp-python's bindings of its C functions, built for this very machine."""

import ctypes
import time
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from protocol import BATCHES, ROOM, serve

FILES = {"int8": "model-q8_0.gguf", "int4": "model-q4_0.gguf"}
MICRO_BATCH = 512  # rows of one pass, its default


def file_of(weights: str) -> str:
    """F16 in place of BF16 where the processor has no BF16 products: a fifth faster there."""
    if weights == "bf16":
        return f"model-{'bf16' if 'avx512_bf16' in Path('/proc/cpuinfo').read_text() else 'f16'}.gguf"
    return FILES[weights.removesuffix("-a8")]


class LlamaCpp:
    def __init__(self, models: Path, weights: str, threads: int) -> None:
        llama_cpp.llama_backend_init()
        path = models / "gguf" / file_of(weights)
        model = llama_cpp.llama_load_model_from_file(bytes(path), llama_cpp.llama_model_default_params())
        if not model:
            raise ValueError(f"{path.name} does not load")
        self.model, self.threads = model, threads
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
        self.contexts: dict[int, Any] = {}
        self.weight_bytes = path.stat().st_size
        self.kv_item_bytes = 2.0
        self.settings = f"llama-cpp-python {llama_cpp.__version__}, {path.stem}"

    def _context(self, tokens: int) -> Any:
        """Room for all sequences of this length, made once."""
        if tokens not in self.contexts:
            params = llama_cpp.llama_context_default_params()
            sequences = BATCHES.get(tokens, 1)
            params.n_ctx = sequences * -(-(tokens + ROOM) // 256) * 256
            params.n_seq_max = sequences
            params.n_batch = sequences * tokens
            params.n_ubatch = min(MICRO_BATCH, params.n_batch)
            params.n_threads = params.n_threads_batch = self.threads
            self.contexts[tokens] = llama_cpp.llama_init_from_model(self.model, params)
        return self.contexts[tokens]

    def _run(self, rows: list[tuple[int, int, int, bool]]) -> list[int]:
        """Rows of (token, position, sequence, are its logits wanted); the likeliest tokens after those."""
        batch = llama_cpp.llama_batch_init(len(rows), 0, 1)
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position, wanted
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
        if llama_cpp.llama_decode(self.context, batch):
            raise RuntimeError("llama_decode failed")
        best = [self._best(i) for i, row in enumerate(rows) if row[3]]
        llama_cpp.llama_batch_free(batch)
        return best

    def _best(self, row: int) -> int:
        logits = llama_cpp.llama_get_logits_ith(self.context, row)
        pointer = ctypes.cast(logits, ctypes.POINTER(ctypes.c_float))
        return int(np.ctypeslib.as_array(pointer, (self.vocabulary,)).argmax())

    def prefill(self, prompts: list[list[int]]) -> float:
        self.position = len(prompts[0])
        self.context = self._context(self.position)
        rows = [
            (token, position, sequence, position == self.position - 1)
            for sequence, ids in enumerate(prompts)
            for position, token in enumerate(ids)
        ]
        started = time.perf_counter()
        self.last = self._run(rows)
        return time.perf_counter() - started

    def decode(self, steps: int) -> list[float]:
        seconds = []
        for _ in range(steps):
            started = time.perf_counter()
            self.last = self._run([(token, self.position, i, True) for i, token in enumerate(self.last)])
            seconds.append(time.perf_counter() - started)
            self.position += 1
        return seconds

    def end(self) -> None:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), False)


if __name__ == "__main__":
    serve(LlamaCpp)
