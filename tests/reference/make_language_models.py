#!/usr/bin/env python3
"""Makes the tiny language models of tests/llm/models/language_models/ and their reference logits from
Hugging Face's transformers: for each family a random model in f32 with its config.json, and
reference.safetensors with `ids` (a prompt of 12 tokens and 32 greedy tokens) and `logits` after each
of the ids, [44, n_vocab].

    python3 -m venv venv && venv/bin/pip install torch transformers safetensors
    venv/bin/python tests/reference/make_language_models.py tests/llm/models/language_models [FAMILY...]

The fixtures in the repository were made with torch 2.15.0 and transformers 5.23.0, on a CPU.
"""
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

N_PROMPT, N_NEW = 12, 32
COMMON = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
              num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
              pad_token_id=None, bos_token_id=None, eos_token_id=None, attn_implementation="eager")
ROPE = dict(rope_type="default", rope_theta=10000.0)
WINDOWS = ["sliding_attention", "full_attention", "sliding_attention"]


def rope(**settings):
    return dict(rope_parameters={**ROPE, **settings})


def gpt_oss(t, **sizes):
    return t.GptOssConfig(
        **{**COMMON, **sizes}, head_dim=16, sliding_window=9, num_local_experts=6,
        num_experts_per_tok=3, **rope(
            rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
            original_max_position_embeddings=32))


# Of parameters, by the last part of their names: sinks that matter, gates beyond the clamp.
SPREADS = {"sinks": 1.5, "gate_up_proj": 1.2}


FAMILIES = {
    "llama": lambda t: t.LlamaConfig(**COMMON, **rope()),
    "llama3": lambda t: t.LlamaConfig(**COMMON, tie_word_embeddings=True, **rope(
        rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
        high_freq_factor=4.0, original_max_position_embeddings=16)),
    "llama-yarn": lambda t: t.LlamaConfig(**COMMON, head_dim=16, **rope(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=32)),
    "mistral": lambda t: t.MistralConfig(**COMMON, head_dim=8, sliding_window=9, **rope()),
    "qwen2": lambda t: t.Qwen2Config(**COMMON, **rope(rope_theta=1000000.0)),
    "qwen3": lambda t: t.Qwen3Config(**COMMON, head_dim=16, **rope(rope_theta=1000000.0)),
    "gemma": lambda t: t.GemmaConfig(**COMMON, head_dim=16, **rope()),
    "gemma2": lambda t: t.Gemma2Config(**COMMON, head_dim=16, sliding_window=9,
                                       layer_types=WINDOWS, query_pre_attn_scalar=24,
                                       attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
                                       **rope()),
    "gemma3": lambda t: t.Gemma3TextConfig(
        **COMMON, head_dim=16, sliding_window=9, layer_types=WINDOWS, query_pre_attn_scalar=24,
        rope_parameters={
            "full_attention": {**ROPE, "rope_theta": 1000000.0, "rope_type": "linear",
                               "factor": 8.0},
            "sliding_attention": ROPE}),
    "phi3": lambda t: t.Phi3Config(**COMMON, sliding_window=9, **rope()),
    "phi3-long": lambda t: t.Phi3Config(
        **COMMON, original_max_position_embeddings=8, **rope(
            rope_type="longrope", original_max_position_embeddings=8,
            short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[1.0, 2.0, 3.5, 6.0])),
    # Phi-4-mini: some of the pairs of a head rotate.
    "phi4": lambda t: t.Phi3Config(
        **COMMON, tie_word_embeddings=True, **rope(
            rope_type="longrope", original_max_position_embeddings=8, partial_rotary_factor=0.75,
            short_factor=[1.0, 1.1, 1.2], long_factor=[1.0, 2.0, 3.5])),
    # Norms whose epsilon matters.
    "granite": lambda t: t.GraniteConfig(
        **COMMON, embedding_multiplier=6.0, residual_multiplier=0.22, attention_multiplier=0.25,
        logits_scaling=3.0, rms_norm_eps=0.01, **rope()),
    "granite-moe": lambda t: t.GraniteMoeConfig(
        **{**COMMON, "intermediate_size": 16}, num_local_experts=6, num_experts_per_tok=3,
        embedding_multiplier=6.0, residual_multiplier=0.22, attention_multiplier=0.25,
        logits_scaling=3.0, **rope()),
    "glm": lambda t: t.GlmConfig(**COMMON, head_dim=8, attention_bias=True,
                                 **rope(partial_rotary_factor=0.5)),
    "glm4": lambda t: t.Glm4Config(**COMMON, head_dim=16, **rope(partial_rotary_factor=0.5)),
    # Norms of all heads together.
    "olmo2": lambda t: t.Olmo2Config(**COMMON, **rope(rope_theta=500000.0)),
    # Every fourth layer has no window, and scaled positions.
    "olmo3": lambda t: t.Olmo3Config(
        **{**COMMON, "num_hidden_layers": 4}, sliding_window=9, rope_parameters={
            "full_attention": {**ROPE, "rope_type": "yarn", "factor": 4.0,
                               "original_max_position_embeddings": 32},
            "sliding_attention": ROPE}),
    "olmoe": lambda t: t.OlmoeConfig(**COMMON, num_experts=6, num_experts_per_tok=3, **rope()),
    # A dense layer between two with experts.
    "qwen3-moe": lambda t: t.Qwen3MoeConfig(
        **COMMON, head_dim=16, moe_intermediate_size=16, num_experts=6, num_experts_per_tok=3,
        norm_topk_prob=True, mlp_only_layers=[1], **rope(rope_theta=1000000.0)),
    # The shared expert has another width than the others.
    "qwen2-moe": lambda t: t.Qwen2MoeConfig(
        **COMMON, moe_intermediate_size=16, shared_expert_intermediate_size=40, num_experts=6,
        num_experts_per_tok=3, norm_topk_prob=False, mlp_only_layers=[1],
        **rope(rope_theta=1000000.0)),
    "mixtral": lambda t: t.MixtralConfig(
        **COMMON, num_local_experts=4, num_experts_per_tok=2, sliding_window=9, **rope()),
    "gpt-oss": lambda t: gpt_oss(t, intermediate_size=16),
    # Experts and config.json as published.
    "gpt-oss-mxfp4": lambda t: gpt_oss(t, hidden_size=64, intermediate_size=32),
    "smollm3": lambda t: t.SmolLM3Config(**{**COMMON, "num_hidden_layers": 4},
                                         no_rope_layer_interval=4, **rope()),
}


E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def draw_mxfp4(weight):
    """Fills an expert matrix [n, columns, rows] with random MXFP4 values; returns its blocks and scales."""
    n, columns, rows = weight.shape
    codes = torch.randint(0, 16, (n, rows, columns // 32, 32))
    scales = torch.randint(122, 126, (n, rows, columns // 32))
    values = E2M1[codes] * torch.exp2(scales[..., None] - 127.0)
    weight.copy_(values.reshape(n, rows, columns).transpose(1, 2))
    pairs = codes[..., 0::2] | codes[..., 1::2] << 4
    return pairs.to(torch.uint8), scales.to(torch.uint8)


def publish(folder, quantized):
    """Gives a saved model the tensors and the config.json of the published files."""
    tensors = load_file(folder / "model.safetensors")
    for key, (blocks, scales) in quantized.items():
        del tensors[key]
        tensors[key + "_blocks"], tensors[key + "_scales"] = blocks, scales
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = scaling
    config["experts_per_token"] = config["num_experts_per_tok"]
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def make(name, folder):
    torch.manual_seed(sum(map(ord, name)))
    config = FAMILIES[name](transformers)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager",
                                                          dtype=torch.float32).eval()
    quantized = {}
    with torch.no_grad():
        for key, weight in model.named_parameters():
            leaf = key.split(".")[-1]
            # Norm weights other than one, so that their position matters.
            spread, mean = (0.3, 0.7) if "norm" in key else (SPREADS.get(leaf, 0.25), 0.0)
            weight.copy_(torch.randn_like(weight) * spread + mean)
            if name.endswith("mxfp4") and weight.dim() == 3:
                quantized[key] = draw_mxfp4(weight)
        ids = torch.randint(0, config.vocab_size, (1, N_PROMPT))
        for _ in range(N_NEW):
            logits = model(ids, use_cache=False).logits
            ids = torch.cat([ids, logits[:, -1:].argmax(-1)], 1)
        logits = model(ids, use_cache=False).logits[0].contiguous()
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if quantized:
        publish(folder, quantized)
    save_file({"ids": ids[0].to(torch.int32), "logits": logits}, folder / "reference.safetensors")
    print(name, [round(x, 2) for x in logits[-1].topk(3).values.tolist()])


def main():
    target = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or FAMILIES:
        make(name, target / name)


if __name__ == "__main__":
    main()
