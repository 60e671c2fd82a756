"""twophase phases against the textbook's own printed output, and what it says of bad input."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MIXTRAL = {
    "model_type": "mixtral",
    "architectures": ["MixtralForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
    "torch_dtype": "bfloat16",
}
TEXTBOOK = Path(__file__).parents[1] / "data" / "textbook"


def document(run, *arguments: str) -> dict:
    status, out, _ = run("phases", "--json", *arguments)
    assert status == 0
    return json.loads(out)


@pytest.mark.parametrize("file", sorted(TEXTBOOK.glob("*.txt")), ids=lambda file: file.stem)
def test_the_textbooks_output_digit_for_digit(run, file: Path) -> None:
    model, gpu = file.stem.split("_")
    status, out, _ = run("phases", model, "--gpu", gpu)
    *textbook, tighter = out.splitlines()
    assert status == 0
    assert textbook == file.read_text().splitlines()
    assert tighter.startswith("Strict floor, logits of the last prompt token only")


def test_three_textbook_files_are_there() -> None:
    assert len(list(TEXTBOOK.glob("*.txt"))) == 3


def test_defaults_are_the_textbooks_and_quiet(run) -> None:
    assert run("phases") == run("phases", "llama-3-8b", "--gpu", "h100-sxm", "--plain")
    assert run("phases")[2] == ""


def test_json_holds_the_same_numbers(run) -> None:
    made = document(run)
    assert made["ridge_flop_per_byte"] == pytest.approx(989 / 3.35)
    assert made["crossover_prompt"] == 295
    assert (
        made["matmul_parameters"] == 7_504_658_432
    )  # 32·(2·4096² + 2·4096·1024 + 3·4096·14336) + 128256·4096
    assert made["kv_bytes_per_token"] == 128 * 1024
    assert (made["fits"], made["needs"]) == (True, 1)
    request = made["request"]
    assert round(request["prefill_s"] * 1e3) == 31
    assert round(request["decode_s"] * 1e3) == 2284
    assert request["decode_share"] == pytest.approx(2284 / (2284 + 31), abs=1e-3)
    last = made["prefill"][-1]
    assert (last["prompt_tokens"], last["bound"]) == (32768, "compute")
    assert last["compute_s"] == pytest.approx(781.90e-3, abs=5e-6)
    assert made["decode"][0]["tokens_per_s"] == pytest.approx(223, abs=0.5)


def test_last_logits_lower_the_table_and_the_floor_is_lower_still_than_the_textbook(run) -> None:
    every, last = document(run, "--logits", "all"), document(run, "--logits", "last")
    head = 2 * 128256 * 4096
    for textbook, own in zip(every["prefill"], last["prefill"], strict=True):
        assert textbook["flops"] - own["flops"] == pytest.approx(head * (own["prompt_tokens"] - 1))
        assert textbook["floor_s"] == own["floor_s"]
    long = every["prefill"][5]
    # 2·7.5047e9·2048 less 2047 head rows, and pairs 2048·2049/2 of 4·4096 FLOPs in 32 layers
    flops = 2 * 7_504_658_432 * 2048 - head * 2047 + 4 * 4096 * 32 * 2048 * 2049 / 2
    assert long["floor_s"] == pytest.approx(flops / 989e12)
    assert long["floor_s"] < long["compute_s"]


def test_weights_alone_in_few_bits_change_bytes_and_not_arithmetic(run) -> None:
    bf16, int4 = document(run), document(run, "--weights", "int4")
    one, same = int4["decode"][1], bf16["decode"][1]
    blocks, head = 6_979_321_856, 128256 * 4096  # the head stays in 16 bits; a scale and a zero for each 128
    assert one["bytes"] == pytest.approx(blocks * (4 + 20 / 128) / 8 + head * 2 + 2048 * 128 * 1024)
    assert (one["flops"], one["compute_s"]) == (same["flops"], same["compute_s"])
    assert (
        "INT4 is how weights are stored: arithmetic counts at the BF16 peak"
        in run("phases", "--weights", "int4")[1]
    )


def test_formats_with_arithmetic_of_their_own_count_at_its_peak(run) -> None:
    fp8, forced = (document(run, "--weights", "fp8", *more) for more in ([], ["--activations", "bf16"]))
    assert (fp8["flops_per_s"], fp8["ridge_flop_per_byte"]) == (1979e12, pytest.approx(1979 / 3.35))
    assert (forced["flops_per_s"], forced["prefill"][5]["bytes"]) == (989e12, fp8["prefill"][5]["bytes"])
    long, same = fp8["prefill"][5], forced["prefill"][5]
    wide = 2 * 128256 * 4096 * 2048 + 4 * 4096 * 32 * 2048**2 / 2  # head and attention stay in 16 bits
    assert same["compute_s"] - long["compute_s"] == pytest.approx((long["flops"] - wide) / 1979e12, rel=2e-3)


def test_a_model_that_does_not_fit_is_still_priced(run) -> None:
    made = document(run, "llama-3-70b")
    assert (made["fits"], made["needs"]) == (False, 2)
    status, out, err = run("phases", "llama-3-70b")
    assert status == 0 and len(out.splitlines()) > 20
    # 70.55e9 parameters of 2 bytes, 2,500 tokens of 320 KiB, less 79.19 GiB
    assert "56.9 GB more than its 85.03 GB; it would on 2" in err and err.count("\n") == 1


def test_ranges_and_batches(run) -> None:
    made = document(run, "--prompts", "1:16:x2,20:40:+10", "--contexts", "5", "--batch", "1:4:x2")
    assert [row["prompt_tokens"] for row in made["prefill"]] == [1, 2, 4, 8, 16, 20, 30, 40]
    assert [(row["batch"], row["context"]) for row in made["decode"]] == [(1, 5), (2, 5), (4, 5)]


def test_csv_and_markdown_are_one_table(run) -> None:
    rows = list(csv.DictReader(io.StringIO(run("phases", "--csv")[1])))
    assert [row["phase"] for row in rows] == ["prefill"] * 8 + ["decode"] * 4
    assert (rows[0]["prompt_tokens"], rows[0]["context"], rows[-1]["context"]) == ("1", "", "32768")
    lines = run("phases", "--markdown")[1].splitlines()
    assert len(lines) == 2 + 12 and len({line.count("|") for line in lines}) == 1


def test_beyond_the_window_is_a_warning(run) -> None:
    status, _, err = run("phases", "--prompts", "9000", "--contexts", "8192")
    assert status == 0
    assert err == "twophase: warning: a prompt of 9000 tokens: beyond Llama-3-8B's context window of 8192\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["llama-3-9b"], "did you mean llama-3-8b"),
        (["--gpu", "h100x"], "did you mean h100"),
        (["--prompts", "0"], "must be at least 1"),
        (["--prompts", "-5"], "must be at least 1"),
        (["--contexts", "1,two"], "'two' is not a size"),
        (["--contexts", ""], "'' is not a size"),
        (["--prompts", "1:64"], "'1:64' is not a range"),
        (["--prompts", "1:64:*2"], "is not a range"),
        (["--prompts", "1:64:x1"], "never ends"),
        (["--prompts", "1:64:+0"], "must be at least 1"),
        (["--prompts", "64:1:x2"], "ends before it begins"),
        (["--prompts", "1:9000000:+1"], "more than 10,000 sizes"),
        (["--prompts", "9" * 5000], "too large"),
        (["--batch", "0"], "must be at least 1"),
        (["--batch", "1.5"], "'1.5' is not a size"),
        (["--request", "2000"], "IN:OUT"),
        (["--request", "2000:0"], "at least 1"),
        (["--request", "2000:999999999"], "at most 10,000,000"),
        (["--weights", "int3"], "int3"),
        (["--json", "--csv"], "give one of"),
        (["--tp", "3"], "--tp 3: Llama-3-8B's 32 heads can't be shared evenly; 2, 4, 8, 16, 32 can"),
        (["--tp", "0"], "--tp 0: it must be a whole number from 1"),
        (["--tp", "-2"], "from 1"),
        (["--tp", "x"], "x"),
        (["--tp", "99999999999"], "from 1"),
        (["--pp", "33"], "--pp 33: Llama-3-8B has 32 layers"),
        (["--ep", "2"], "--ep 2: Llama-3-8B has no experts"),
        (["--dp", "0"], "--dp 0"),
        (["--weights", "nvfp5"], "nvfp5"),
        (["--weights", ""], "''"),
        (["--kv", "fp3"], "fp3"),
        (["--activations", "fp2"], "fp2"),
        (["--hardware", "/nowhere.toml"], "/nowhere.toml"),
        (["--hardware", __file__, "--gpu", "mine"], "test_phases.py"),
    ],
)
def test_bad_input_gets_one_line(run, arguments: list[str], says: str) -> None:
    status, out, err = run("phases", *arguments)
    assert (status, out) == (2, "")
    assert says in err and err.startswith("twophase: ") and err.count("\n") == 1


def test_tensor_parallel_halves_what_a_device_does_and_adds_communication(run) -> None:
    one, two = document(run), document(run, "--tp", "2")
    assert [one[name] for name in ("tp", "pp", "ep", "dp")] == [1, 1, 1, 1]
    assert [two[name] for name in ("tp", "pp", "ep", "dp")] == [2, 1, 1, 1]
    assert two["kv_bytes_per_token"] == one["kv_bytes_per_token"]  # of the model, not of a device
    for phase in ("prefill", "decode"):
        for alone, shared in zip(one[phase], two[phase], strict=True):
            assert shared["flops"] == pytest.approx(alone["flops"] / 2)
            assert shared["bytes"] == pytest.approx(alone["bytes"] / 2)
            assert alone["communication_s"] == 0
    # two all-reduces in each of 32 layers, of one row in 16 bits to the other device: one hop over NVLink
    assert two["decode"][0]["communication_s"] == pytest.approx(64 * (2 * 4096 / 450e9 + 2e-6))


def test_pipeline_stages_come_one_after_the_other(run) -> None:
    one, four = document(run), document(run, "--pp", "4")
    assert four["pp"] == 4 and four["weights_bytes"] < one["weights_bytes"] / 3
    assert four["decode"][0]["memory_s"] == pytest.approx(one["decode"][0]["memory_s"])
    # activations of one row are sent three times, on one node
    assert four["decode"][0]["communication_s"] == pytest.approx(3 * (2 * 4096 / 450e9 + 2e-6))


def test_replicas_share_the_batch_and_experts_are_dealt_out(run, tmp_path: Path) -> None:
    one, two = document(run, "--batch", "32"), document(run, "--batch", "64", "--dp", "2")
    assert two["decode"][0]["floor_s"] == pytest.approx(one["decode"][0]["floor_s"])
    assert two["decode"][0]["tokens_per_s"] == pytest.approx(2 * one["decode"][0]["tokens_per_s"])
    (tmp_path / "config.json").write_text(json.dumps(MIXTRAL))
    alone, dealt = (document(run, tmp_path, *more) for more in ([], ["--tp", "8", "--ep", "8"]))
    assert (dealt["tp"], dealt["ep"]) == (8, 8)
    assert dealt["weights_bytes"] == pytest.approx(alone["weights_bytes"] / 8, rel=0.02)
    assert dealt["decode"][0]["communication_s"] > 0


def test_bits_of_a_weight_are_those_of_its_format(run) -> None:
    """Elements of the blocks with their scales; the output projection stays wide in NVFP4, not in GGUF."""
    bf16 = document(run)["decode"][0]["bytes"]
    nvfp4 = document(run, "--weights", "nvfp4")["decode"][0]["bytes"]
    assert bf16 - nvfp4 == pytest.approx(6_979_321_856 * (16 - 4.5) / 8)  # an FP8 scale for 16 weights
    q4_k_m = document(run, "--weights", "q4_k_m")["weights_bytes"]
    assert q4_k_m == pytest.approx(4.92e9, rel=0.02)  # the published Meta-Llama-3-8B-Instruct.Q4_K_M.gguf


def test_operands_choose_the_peak(run) -> None:
    fp4 = document(run, "--gpu", "b200", "--weights", "nvfp4")
    assert (fp4["arithmetic"], fp4["flops_per_s"]) == ("fp4", 9000e12)
    wide = document(run, "--gpu", "b200", "--weights", "nvfp4", "--activations", "bf16")
    assert (wide["arithmetic"], wide["flops_per_s"]) == ("bf16", 2250e12)


def test_an_accelerator_of_ones_own(run, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        '[mine]\ntitle = "Mine"\nflops = { bf16 = 100e12 }\n'
        "memory_bytes = 24e9\nmarketed_bytes = 24e9\nbandwidth = 1e12\n"
    )
    made = document(run, "--hardware", file, "--gpu", "mine")
    assert (made["accelerator"], made["ridge_flop_per_byte"]) == ("mine", 100)
    assert made["decode"][0]["memory_s"] == pytest.approx(made["decode"][0]["bytes"] / 1e12)


@pytest.mark.parametrize("suffix", ["html", "png", "svg", "SVG"])
def test_a_plot_is_written_beside_the_table(run, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"roofline.{suffix}"
    status, out, err = run("phases", "--plot", file)
    assert (status, err) == (0, "")
    assert out == run("phases")[1] + f"\nThe plot: {file}\n"
    begins = {"html": b"<!doctype html>", "png": b"\x89PNG", "svg": b"<svg "}
    assert file.read_bytes().startswith(begins[suffix.lower()])


def test_json_beside_a_plot_stays_one_document(run, tmp_path: Path) -> None:
    assert document(run, "--plot", tmp_path / "a.svg") == document(run)
    assert run("phases", "--csv", "--plot", tmp_path / "a.svg")[1] == run("phases", "--csv")[1]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("x.pdf", "ends in .html, .png or .svg"),
        ("x", "ends in .html, .png or .svg"),
        ("", "ends in .html, .png or .svg"),
        ("folder.png", "can't be written"),
        ("missing/x.png", "can't be written"),
        ("file/x.png", "can't be written"),
        ("x" * 300 + ".svg", "can't be written"),
        ("pipe.svg", "it is a device or a pipe"),
        ("loop.svg", "can't be written"),
    ],
)
def test_a_plot_that_can_not_be_written_is_said_first(run, tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe.svg")  # which nobody reads
    (tmp_path / "loop.svg").symlink_to("loop.svg")
    status, out, err = run("phases", "--plot", tmp_path / name)
    assert (status, out) == (2, "")
    assert says in err and err.startswith("twophase: --plot ") and err.count("\n") == 1


def test_a_plot_without_its_library_names_the_extra(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    status, out, err = run("phases", "--plot", tmp_path / "x.png")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "install the extra charts" in err


def test_phases_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['twophase', 'phases', '--json']\n"
        "from twophase.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numba', 'gguf', 'tokenizers', 'torch', 'rich', 'safetensors', 'transformers'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
