"""Which engine serves, by the owner that it names for its models at /v1/models."""

OWNERS = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llamacpp": "llama.cpp",
    "lmdeploy": "LMDeploy",
    "tensorrt_llm": "TensorRT-LLM",
    "twophase": "twophase",
    "library": "Ollama",
}
