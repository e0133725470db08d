#!/usr/bin/env python3
"""Makes the LoRA adapters of tests/session/adapters/ for the tiny language models of
tests/llm/models/language_models/, and their reference logits from Hugging Face's peft: for each the
files that peft writes, and reference.safetensors with `ids` (44 tokens) and `logits` of the adapted
model after each of them, [44, n_vocab].

    python3 -m venv venv && venv/bin/pip install torch transformers safetensors peft
    venv/bin/python tests/reference/make_adapters.py tests/llm/models/language_models tests/session/adapters

The fixtures in the repository were made with torch 2.15.0, transformers 5.23.0 and peft 0.21.2, on a
CPU.
"""
import json
import pathlib
import sys

import peft
import torch
import transformers
from safetensors.torch import save_file

ADAPTERS = {
    # name: (model, settings)
    "llama": ("llama", dict(r=4, lora_alpha=8, target_modules="all-linear")),
    # Ranks and alphas of single modules, another scale, and the embedding.
    "llama-patterns": ("llama", dict(
        r=3, lora_alpha=6, use_rslora=True, rank_pattern={"q_proj": 2}, alpha_pattern={"1.self_attn.v_proj": 9},
        target_modules=["q_proj", "v_proj", "down_proj", "embed_tokens", "lm_head"])),
    # Fused matrices.
    "phi3": ("phi3", dict(r=2, lora_alpha=2, target_modules=["qkv_proj", "gate_up_proj", "o_proj"])),
    # Norms of heads, and heads wider than the model.
    "qwen3": ("qwen3", dict(r=4, lora_alpha=4, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])),
}


def make(name, models, target):
    model_name, settings = ADAPTERS[name]
    torch.manual_seed(sum(map(ord, name)))
    base = transformers.AutoModelForCausalLM.from_pretrained(
        models / model_name, attn_implementation="eager", dtype=torch.float32).eval()
    model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", **settings)).eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if "lora_" in key:
                weight.copy_(torch.randn_like(weight) * 0.2)
        ids = torch.randint(0, base.config.vocab_size, (1, 44))
        logits = model(ids, use_cache=False).logits[0].contiguous()
        with model.disable_adapter():
            change = (model(ids, use_cache=False).logits[0] - logits).abs().max().item()
    model.save_pretrained(target, save_embedding_layers=False)
    (target / "README.md").unlink(missing_ok=True)
    config = json.loads((target / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = model_name
    (target / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    save_file({"ids": ids[0].to(torch.int32), "logits": logits}, target / "reference.safetensors")
    print(name, "changes logits by up to", round(change, 2))


def main():
    for name in sys.argv[3:] or ADAPTERS:
        make(name, pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]) / name)


if __name__ == "__main__":
    main()
