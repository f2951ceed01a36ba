# mmconv for NVIDIA GPUs: checkpoints through transformers and through vLLM, 4 and 8 bit, the API.
#
#     docker build -f docker/cuda.Dockerfile -t mmconv:cuda .
#     docker run --gpus all --ipc=host -v "$PWD:/data" mmconv:cuda run convbench ...
#
# torch and vLLM bring the CUDA libraries with them (9 GB in all); the host needs the driver and
# NVIDIA's container toolkit.
FROM python:3.12-slim-bookworm

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore \
    PYTHONUNBUFFERED=1 \
    HF_HOME=/data/huggingface \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility

# Triton compiles kernels when a model is first used; KubeRay asks with wget whether Ray is up.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev wget \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/mmconv
# All dependencies, by a package without code: editing the source does not reinstall them.
COPY docker/cuda.constraints.txt pyproject.toml ./
RUN mkdir configs images judges model_zoo mmconv \
    && touch README.md LICENSE \
    && pip install -c cuda.constraints.txt '.[hf,quant,vllm,serve,postgres,arena,perturb]' 'ray[default]'
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
