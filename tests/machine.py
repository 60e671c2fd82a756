"""A made-up machine and model with known physics: diagnoses whose every number can be worked out by hand.

Nothing here uses the package's cost model: times are roofs and utilisations put in by the test.
"""

from dataclasses import dataclass

from twophase.advise.bend import fit_ttft
from twophase.advise.diagnosis import DecodeRow, Diagnosis, PrefillRow, RequestSplit, Roofs
from twophase.advise.verdict import bound_of, judge


@dataclass(frozen=True)
class Machine:
    """A dense model on a machine. Attention's FLOPs a (query, key) pair are attention_flops."""

    flops_per_s: float
    bytes_per_s: float
    weight_bytes: float
    kv_bytes: float
    linear_flops: float  # a row
    attention_flops: float
    mfu: float = 1.0  # share of the roof that prefill reaches where arithmetic binds it
    mbu: float = 1.0
    overhead_s: float = 0.0  # a pass

    def sides(self, rows: int, batch: int, context: float) -> tuple[float, float]:
        """(FLOPs, bytes) of a pass: `batch` sequences each with `rows` new rows on `context`."""
        pairs = rows * context + rows * (rows + 1) / 2
        flops = batch * (rows * self.linear_flops + pairs * self.attention_flops)
        return flops, self.weight_bytes + batch * (context + rows) * self.kv_bytes

    def pass_s(self, rows: int, batch: int, context: float) -> float:
        flops, moved = self.sides(rows, batch, context)
        compute, memory = flops / self.flops_per_s / self.mfu, moved / self.bytes_per_s / self.mbu
        return self.overhead_s + max(compute, memory)

    def prefill_row(self, tokens: int) -> PrefillRow:
        flops, moved = self.sides(tokens, 1, 0)
        measured = self.pass_s(tokens, 1, 0)
        compute, memory = flops / self.flops_per_s, moved / self.bytes_per_s
        return PrefillRow(
            prompt_tokens=tokens,
            ttft_s=measured,
            floor_s=max(compute, memory),
            compute_s=compute,
            memory_s=memory,
            flops=flops,
            bytes=moved,
            mfu=compute / measured,
            mbu=memory / measured,
            bound=bound_of(measured_s=measured, compute_s=compute, memory_s=memory),
            runs=5,
        )

    def decode_row(self, batch: int, context: int) -> DecodeRow:
        flops, moved = self.sides(1, batch, context)
        measured = self.pass_s(1, batch, context)
        compute, memory = flops / self.flops_per_s, moved / self.bytes_per_s
        return DecodeRow(
            batch=batch,
            context=context,
            itl_s=measured,
            floor_s=max(compute, memory),
            compute_s=compute,
            memory_s=memory,
            flops=flops,
            bytes=moved,
            mfu=compute / measured,
            mbu=memory / measured,
            bound=bound_of(measured_s=measured, compute_s=compute, memory_s=memory),
            runs=20,
        )

    def request(self, prompt: int, output: int) -> RequestSplit:
        prefill, decode = self.pass_s(prompt, 1, 0), (output - 1) * self.pass_s(1, 1, prompt + output / 2)
        bare = Machine(
            self.flops_per_s,
            self.bytes_per_s,
            self.weight_bytes,
            self.kv_bytes,
            self.linear_flops,
            self.attention_flops,
        )
        return RequestSplit(
            prompt_tokens=prompt,
            output_tokens=output,
            prefill_s=prefill,
            decode_s=decode,
            prefill_floor_s=bare.pass_s(prompt, 1, 0),
            decode_floor_s=(output - 1) * bare.pass_s(1, 1, prompt + output / 2),
            dominant="prefill" if prefill > decode else "decode",
            extrapolated=True,
        )


PROMPTS = (16, 32, 64, 128, 256, 512, 1024, 2048)
CONTEXTS = (16, 128, 512, 1024, 2048)
BATCHES = (1, 2, 4, 8, 16)

LAPTOP = Machine(  # Gemma 3 270M in BF16 on two cores
    flops_per_s=200e9,
    bytes_per_s=35e9,
    weight_bytes=536e6,
    kv_bytes=18432,
    linear_flops=2 * 100e6,
    attention_flops=4 * 4 * 256 * 18,
    mfu=0.82,
    mbu=0.78,
    overhead_s=0.0015,
)
CPU = Machine(  # Qwen3-0.6B in BF16 on the faster two cores of the same kind
    flops_per_s=415e9,
    bytes_per_s=37e9,
    weight_bytes=1192e6,
    kv_bytes=114688,
    linear_flops=2 * 440e6,
    attention_flops=4 * 2048 * 28,
    mfu=0.9,
    mbu=0.7,
    overhead_s=0.002,
)

# Ten GB of weights at 1 TB/s: a decode pass takes 10 ms.
# Ten GFLOP a token at 100 TFLOP/s: prefill takes 0.1 ms a token.
CHAT = Machine(
    flops_per_s=100e12,
    bytes_per_s=1e12,
    weight_bytes=10e9,
    kv_bytes=0.0,
    linear_flops=10e9,
    attention_flops=0.0,
)
# The same at a tenth of the arithmetic: prefill 1 ms a token.
READER = Machine(
    flops_per_s=10e12,
    bytes_per_s=1e12,
    weight_bytes=10e9,
    kv_bytes=0.0,
    linear_flops=10e9,
    attention_flops=0.0,
)


def diagnosis(machine: Machine, prompt: int, output: int, **named: object) -> Diagnosis:
    """A whole diagnosis, noise-free; `named` replaces model, weights and other plain fields."""
    prefill = tuple(machine.prefill_row(tokens) for tokens in PROMPTS)
    decode = tuple(
        [machine.decode_row(1, context) for context in CONTEXTS]
        + [machine.decode_row(batch, 512) for batch in BATCHES if batch > 1]
    )
    roofs = Roofs(
        flops_per_s=machine.flops_per_s,
        read_bytes_per_s=machine.bytes_per_s,
        ridge_flop_per_byte=machine.flops_per_s / machine.bytes_per_s,
        flops_per_s_range=(machine.flops_per_s * 0.94, machine.flops_per_s),
        read_bytes_per_s_range=(machine.bytes_per_s * 0.88, machine.bytes_per_s),
        compute="bf16 (AVX512-BF16)",
        threads=2,
        cpu="AMD EPYC 9B14",
    )
    fit, request = fit_ttft(prefill), machine.request(prompt, output)
    kv, weights = int(machine.kv_bytes), int(machine.weight_bytes)
    verdict = judge(
        prefill=prefill,
        decode=decode,
        fit=fit,
        request=request,
        roofs=roofs,
        narrower={"int8": 8 / 16, "int4": (4 + 20 / 128) / 16},
        weight_bytes=weights,
        kv_bytes_per_token=kv,
    )
    plain: dict[str, object] = {
        "model": "gemma-3-270m",
        "weights": "real",
        "weight_format": "bf16",
        "seconds": 58.2,
        **named,
    }
    return Diagnosis(
        weight_bytes=weights,
        kv_bytes_per_token=kv,
        roofs=roofs,
        prefill=prefill,
        decode=decode,
        ttft_fit=fit,
        request=request,
        verdict=verdict,
        **plain,  # type: ignore[arg-type]
    )
