#!/usr/bin/env bash
# Makes a virtual environment with lmms-eval, for the test that it works against the service:
#
#     .ci/lmms_env.sh FOLDER
#
# lmms-eval requires some forty packages, most of them for its local models and certain tasks; here
# are those that its OpenAI clients load, apart from the project's own. A complete environment made
# by this same recipe is left as it is; anything else in FOLDER is replaced.
set -euo pipefail

folder=$1
recipe=$(sha256sum < "${BASH_SOURCE[0]}")

if [[ -f $folder/recipe && $(<"$folder/recipe") == "$recipe" ]]; then
    exit 0
fi

rm -rf "$folder"
python3 -m venv "$folder"
pip=("$folder/bin/python" -m pip -qq --disable-pip-version-check)
# torch first: left to the resolver, a build with several GB of CUDA libraries may be taken
"${pip[@]}" install --no-compile torch==2.13.0
# filelock: lmms-eval imports its private module _api, which newer releases do not have
"${pip[@]}" install --no-compile torch==2.13.0 accelerate==1.15.0 datasets==5.2.0 evaluate==0.4.6 \
    filelock==3.20.0 loguru==0.7.3 openai==3.52.0 pillow==13.0.0 pytablewriter==1.2.1 \
    python-dotenv==1.2.4 pytz==2026.6 sacrebleu==2.6.0 tenacity==9.2.1 \
    transformers==5.23.0
"${pip[@]}" install --no-compile --no-deps lmms-eval==0.7.3

cd "$folder"
"$folder/bin/python" -W ignore -c '
import lmms_eval.__main__, lmms_eval.models.chat.async_openai, lmms_eval.models.chat.openai
import pytablewriter' > import.log 2>&1 || {
    cat import.log
    exit 1
}
echo "$recipe" > recipe
