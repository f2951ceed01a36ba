# mmconv for machines without a GPU: hosted models, judges, small checkpoints, the served API.
#
#     docker build -f docker/cpu.Dockerfile -t mmconv:cpu .
FROM python:3.12-slim-bookworm

# An index with a build of torch without CUDA.
ARG TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore \
    PYTHONUNBUFFERED=1 \
    HF_HOME=/data/huggingface

WORKDIR /opt/mmconv
COPY .ci/constraints.txt ./
RUN pip install --index-url "$TORCH_INDEX_URL" "$(grep '^torch==' constraints.txt)"
# All dependencies, by a package without code: editing the source does not reinstall them.
COPY pyproject.toml ./
RUN mkdir configs images judges model_zoo mmconv \
    && touch README.md LICENSE \
    && pip install -c constraints.txt '.[hf,serve,postgres,arena,perturb]'
COPY README.md LICENSE ./
COPY configs ./configs
COPY images ./images
COPY judges ./judges
COPY model_zoo ./model_zoo
COPY mmconv ./mmconv
RUN pip install --no-deps .

RUN useradd --create-home --uid 1000 mmconv && install -d -o mmconv -g mmconv /data
USER 1000
WORKDIR /data
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["mmconv"]
CMD ["--help"]
