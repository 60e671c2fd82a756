"""generate and diagnose as a user calls them, on a tiny model, and what they say of bad input."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers
import torch
import transformers as tf

Run = Callable[..., tuple[int, str, str]]
WORDS = ["the", "a", "time", "once", "upon", "there", "was", "little", "girl", "who", "loved", "to", "play"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama and a tokenizer of words, as Hugging Face lays them out."""
    path = tmp_path_factory.mktemp("tiny")
    vocabulary = {"<s>": 0, "</s>": 1, "<unk>": 2} | {word: 3 + i for i, word in enumerate(WORDS)}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text('{"bos_token": "<s>", "eos_token": "</s>"}')
    torch.manual_seed(1)
    config = tf.LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=256,
        bos_token_id=0,
        eos_token_id=1,
    )
    model = tf.LlamaForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight[1] = 0  # some other word is always likelier than the end
    model.save_pretrained(path)
    return path


def test_generate_prints_text_then_timings(run: Run, folder: Path) -> None:
    status, out, err = run("generate", "once upon a time", folder, "--max-tokens", "5", "--threads", "1")
    assert (status, err) == (0, "")
    text, timings = out.split("\n\n", 1)
    assert set(text.split()) <= set(WORDS) | {"<unk>"}
    assert timings.startswith("prefill      4 tokens")
    assert "\ndecode " in timings


def test_generate_json_has_every_pass(run: Run, folder: Path) -> None:
    status, out, err = run("generate", "once upon a time", folder, "--max-tokens", "6", "--json")
    document = json.loads(out)
    assert (status, err) == (0, "")
    assert document["prompt_ids"] == [6, 7, 4, 5]
    tokens = len(document["output_ids"])
    assert [each["shape"] for each in document["passes"]] == [
        [[4, 0]],
        *([[1, 4 + i]] for i in range(tokens - 1)),
    ]
    seconds = [each["seconds"] for each in document["passes"]]
    assert document["prefill_s"] == seconds[0]
    assert document["decode_s"] == pytest.approx(sum(seconds[1:]))


def test_diagnose_beats_no_floor(run: Run, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    status, out, err = run(
        "diagnose", folder, "--request", "100:20", "--budget", "3", "--json", "--html", page
    )
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert found["weights"] == "real"
    assert [row["prompt_tokens"] for row in found["prefill"]][:3] == [16, 32, 64]
    assert {row["batch"] for row in found["decode"]} == {1, 2, 4, 8, 16}
    for row in found["prefill"]:
        assert row["ttft_s"] >= row["floor_s"] > 0
    for row in found["decode"]:
        assert row["itl_s"] >= row["floor_s"] > 0
    assert found["roofs"]["ridge_flop_per_byte"] == pytest.approx(
        found["roofs"]["flops_per_s"] / found["roofs"]["read_bytes_per_s"]
    )
    assert found["request"]["prompt_tokens"] == 100
    assert found["verdict"]["dominant"] == found["request"]["dominant"]
    assert found["verdict"]["advice"]
    assert page.read_text().startswith("<!")


def test_random_weights_are_labelled(run: Run, folder: Path) -> None:
    status, out, _ = run("diagnose", folder, "--load", "random", "--request", "30:5", "--budget", "1")
    assert status == 0
    assert "random" in out.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["diagnose", "qwen4-0.6b"], "did you mean qwen3-0.6b"),
        (["diagnose", "qwen3-0.6b"], "--load random"),
        (["diagnose", "no/such/folder"], "no/such/folder does not exist"),
        (["diagnose", "llama-3.1-405b", "--load", "random"], "GiB is available"),
        (["diagnose", "{folder}", "--request", "300:5"], "context window"),
        (["diagnose", "{folder}", "--request", "0:5"], "IN:OUT"),
        (["diagnose", "{folder}", "--request", "5"], "IN:OUT"),
        (["diagnose", "{folder}", "--budget", "0"], "greater than zero"),
        (["diagnose", "{folder}", "--budget", "nan"], "greater than zero"),
        (["diagnose", "{folder}", "--budget", "inf"], "finite"),
        (["diagnose", "/dev/zero"], "not a file"),
        (["tokenize", "the girl", "no/such/file.gguf"], "does not exist"),
        (["diagnose", "{folder}", "--threads", "0"], "--threads 0"),
        (["diagnose", "{folder}", "--html", "/no/such/folder/page.html"], "can't be written"),
        (["diagnose", "{folder}", "--load", "fake"], "fake"),
        (["diagnose", "{folder}", "--nonsense"], "--nonsense"),
        (["generate", "the girl", "{folder}", "--max-tokens", "0"], "--max-tokens"),
        (["generate", "the girl", "{folder}", "--max-tokens", "255"], "context window"),
        (["generate", "", "{folder}"], "prompt"),
        (["generate", "the girl", "qwen3-0.6b", "--load", "random"], "tokenizer"),
        (["generate"], "PROMPT"),
    ],
)
def test_bad_input_is_one_line_and_status_two(
    run: Run, folder: Path, arguments: list[str], told: str
) -> None:
    status, out, err = run(*(each.format(folder=folder) for each in arguments))
    assert (status, out) == (2, "")
    assert err.startswith("twophase: ")
    assert told in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "keep", "told"),
    [
        ("tokenizer.json", 0, "tokenizer.json"),
        ("model.safetensors", 0, "safetensors"),
        ("model.safetensors", 10_000, "model.safetensors"),
        ("model.safetensors", 4, "model.safetensors"),
        ("config.json", 0, "config.json"),
        ("config.json", 100, "config.json"),
    ],
)
def test_a_missing_or_cut_off_file_is_named(
    run: Run, folder: Path, tmp_path: Path, name: str, keep: int, told: str
) -> None:
    for file in folder.iterdir():
        data = file.read_bytes()
        if file.name != name:
            (tmp_path / file.name).write_bytes(data)
        elif keep:
            (tmp_path / file.name).write_bytes(data[:keep])
    status, out, err = run("generate", "the girl", tmp_path)
    assert (status, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
