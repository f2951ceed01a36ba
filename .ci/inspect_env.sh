#!/usr/bin/env bash
# Makes a virtual environment with Inspect and what mmconv needs, for the tests of the export:
#
#     .ci/inspect_env.sh FOLDER
#
# It is apart from the project's own because Inspect wants older versions of some packages. mmconv
# itself is not installed: tests run from the checkout. An environment made for the same
# dependencies is left as it is; anything else in FOLDER is replaced.
set -euo pipefail

folder=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
recipe=$(cat "${BASH_SOURCE[0]}" "$root/pyproject.toml" | sha256sum)

if [[ -f $folder/recipe && $(<"$folder/recipe") == "$recipe" ]]; then
    exit 0
fi

rm -rf "$folder"
python3 -m venv "$folder"
pip=("$folder/bin/python" -m pip -qq --disable-pip-version-check)
# openai: Inspect's own client of OpenAI-compatible servers, which it does not install by itself
"${pip[@]}" install "$root[inspect]" openai pytest pytest-asyncio pytest-timeout
"${pip[@]}" uninstall --yes mmconv
echo "$recipe" > "$folder/recipe"
