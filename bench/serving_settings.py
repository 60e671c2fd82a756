"""How the engines of a row were set, which no column says: as InferenceX's public launch scripts have them.

github.com/SemiAnalysisAI/InferenceX, benchmarks/: one script for each model, precision and machine. All
sweeps send ten times as many requests as there are clients, the first ones at once.
"""

from twophase.results import Point
from twophase.simulate.steady import CHUNK

CROWD = 16  # clients from which on SGLang's scripts look for new requests more rarely
SELDOM, OFTEN = 30.0, 10.0  # passes from look to look: SGLang's --scheduler-recv-interval on Blackwell
HELD_UP = 60.0  # passes that TensorRT-LLM holds prompts up for at most, to balance ranks: timeout_iters
SGLANG_ROWS, SGLANG_ROWS_FP4 = 32768, 16384  # --chunked-prefill-size
TRTLLM_ROWS, GPT_OSS_ROWS = 16384, 20000  # --max_num_tokens, but for DeepSeek: see `chunk_of`
DEEPSEEK_MORE = 128  # than a prompt and its clients


def looks_of(point: Point, engine: str, system: str, data_parallel: bool, clients: float) -> float:
    """Passes from one look for new requests to the next."""
    if point.disaggregated:
        return 1.0
    if engine == "sglang" and system.startswith("b") and not data_parallel:
        return SELDOM if clients >= CROWD else OFTEN
    return HELD_UP if engine == "trtllm" and data_parallel else 1.0


def chunk_of(point: Point, engine: str, clients: float, four_bits: bool) -> float:
    """Rows of prompts in a pass."""
    if point.disaggregated or engine == "vllm":
        return float(CHUNK)
    if engine == "sglang":
        return float(SGLANG_ROWS_FP4 if four_bits else SGLANG_ROWS)
    if "deepseek" in (point.model or "").lower():  # room for one prompt beside all decodes
        return (point.input_tokens or 1) + clients + DEEPSEEK_MORE
    return float(GPT_OSS_ROWS if "gpt-oss" in (point.model or "").lower() else TRTLLM_ROWS)
