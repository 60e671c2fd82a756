"""transformers on torch's CPU build, as its forward pass is called by hand: no scheduler, no paging."""

import time
from pathlib import Path

import torch
from protocol import serve
from transformers import AutoModelForCausalLM, __version__


class Transformers:
    def __init__(self, models: Path, weights: str, threads: int) -> None:
        if weights != "bf16":
            raise ValueError("it brings no INT8 or INT4 of its own for a CPU")
        torch.set_num_threads(threads)
        # Where oneDNN has no BF16 for this processor torch's BF16 is ten times slower than its float32.
        own = torch.bfloat16 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else torch.float32
        self.model = AutoModelForCausalLM.from_pretrained(models / "checkpoint", dtype=own).eval()
        self.weight_bytes = sum(2 * each.numel() for each in self.model.parameters())
        self.kv_item_bytes = 2.0
        attention = self.model.config._attn_implementation
        self.settings = f"{__version__}, torch {torch.__version__}, {attention} attention, held as {own}"

    @torch.inference_mode()
    def _step(self, ids: torch.Tensor, cache: object) -> None:
        out = self.model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        self.cache, self.last = out.past_key_values, out.logits[:, -1:].argmax(-1)

    def prefill(self, prompts: list[list[int]]) -> float:
        started = time.perf_counter()
        self._step(torch.tensor(prompts), None)
        return time.perf_counter() - started

    def decode(self, steps: int) -> list[float]:
        seconds = []
        for _ in range(steps):
            started = time.perf_counter()
            self._step(self.last, self.cache)
            seconds.append(time.perf_counter() - started)
        return seconds

    def end(self) -> None:
        self.cache = None


if __name__ == "__main__":
    serve(Transformers)
