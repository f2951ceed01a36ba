from tests.real.servers import postgres_url, real_vllm, vllm_checkpoint, vllm_options

__all__ = ["postgres_url", "real_vllm", "vllm_checkpoint", "vllm_options"]
