"""OpenVINO GenAI's continuous batching pipeline on the CPU, stepped by hand."""

import time
from pathlib import Path

import numpy as np
import openvino
import openvino_genai
from protocol import BATCHES, ROOM, serve

DIRECTORIES = {"bf16": "fp16", "int8": "int8", "int4": "int4"}


class OpenVINO:
    def __init__(self, models: Path, weights: str, threads: int) -> None:
        path = models / "openvino" / DIRECTORIES[weights]
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.max_num_seqs = max(BATCHES.values())
        scheduler.max_num_batched_tokens = 2048
        scheduler.cache_size = 1
        self.pipeline = openvino_genai.ContinuousBatchingPipeline(
            path, scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads}
        )
        self.generation = openvino_genai.GenerationConfig()
        self.generation.max_new_tokens, self.generation.ignore_eos = ROOM, True
        self.weight_bytes = (path / "openvino_model.bin").stat().st_size
        self.kv_item_bytes = 1.0
        self.settings = f"openvino-genai {openvino_genai.__version__}"
        self.handles: list[openvino_genai.GenerationHandle] = []
        self.count = 0

    def prefill(self, prompts: list[list[int]]) -> float:
        started = time.perf_counter()
        self.handles = []
        for ids in prompts:
            tensor = openvino.Tensor(np.array([ids], np.int64))
            self.handles.append(self.pipeline.add_request(self.count, tensor, self.generation))
            self.count += 1
        while not all(handle.can_read() for handle in self.handles):
            self.pipeline.step()
        return time.perf_counter() - started

    def decode(self, steps: int) -> list[float]:
        for handle in self.handles:
            handle.read()
        seconds = []
        for _ in range(steps):
            started = time.perf_counter()
            self.pipeline.step()
            seconds.append(time.perf_counter() - started)
            assert all(len(handle.read()) == 1 for handle in self.handles)
        return seconds

    def end(self) -> None:
        for handle in self.handles:
            handle.cancel()
        while self.pipeline.has_non_finished_requests():
            self.pipeline.step()


if __name__ == "__main__":
    serve(OpenVINO)
