#!/usr/bin/env python3
"""Makes the tiny text encoders of tests/encoder/text_encoders/ and their reference rows from Hugging
Face's transformers: for each family a random model in f32 with its config.json, and
reference.safetensors with `ids` (two texts of 5 and 23 tokens, concatenated) and `rows`, the last
hidden states of each text alone, [28, d_model].

    python3 -m venv venv && venv/bin/pip install torch transformers safetensors
    venv/bin/python tests/reference/make_text_encoders.py tests/encoder/text_encoders [FAMILY...]

The fixtures in the repository were made with torch 2.15.0 and transformers 5.23.0, on a CPU.
"""
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

LENGTHS = [5, 23]
COMMON = dict(vocab_size=64, hidden_size=64, intermediate_size=48, num_hidden_layers=2,
              num_attention_heads=2, max_position_embeddings=64)
FAMILIES = {
    "bert": lambda t: t.BertConfig(**COMMON, type_vocab_size=2),
    "roberta": lambda t: t.RobertaConfig(**COMMON, type_vocab_size=1, pad_token_id=1),
    "mpnet": lambda t: t.MPNetConfig(**COMMON, pad_token_id=1),
    "nomic-bert": lambda t: t.NomicBertConfig(**COMMON, type_vocab_size=2),
    "modernbert": lambda t: t.ModernBertConfig(
        **{**COMMON, "num_hidden_layers": 4}, local_attention=8, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, cls_token_id=1, sep_token_id=2),
    "qwen3": lambda t: t.Qwen3Config(**COMMON, num_key_value_heads=1, head_dim=32,
                                     rope_parameters=dict(rope_type="default",
                                                          rope_theta=1000000.0)),
    "embedding-gemma": lambda t: t.Gemma3TextConfig(
        **{**COMMON, "num_hidden_layers": 6, "hidden_size": 32}, num_key_value_heads=1, head_dim=16,
        query_pre_attn_scalar=16, sliding_window=10, use_bidirectional_attention=True,
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}),
    "mistral": lambda t: t.MistralConfig(**COMMON, num_key_value_heads=2, head_dim=32,
                                         sliding_window=9,
                                         rope_parameters=dict(rope_type="default",
                                                              rope_theta=10000.0)),
}


def make(name, folder):
    torch.manual_seed(sum(map(ord, name)))
    config = FAMILIES[name](transformers)
    model = transformers.AutoModel.from_config(config, attn_implementation="eager",
                                               dtype=torch.float32).eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            # Norm weights other than one, so that their position matters.
            spread, mean = (0.3, 0.7) if "norm" in key.lower() else (0.25, 0.0)
            weight.copy_(torch.randn_like(weight) * spread + mean)
        # From 3 on: no family uses these ids for padding.
        texts = [torch.randint(3, config.vocab_size, (1, n)) for n in LENGTHS]
        rows = [model(text).last_hidden_state[0] for text in texts]
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    save_file({"ids": torch.cat(texts, 1)[0].to(torch.int32), "rows": torch.cat(rows).contiguous()},
              folder / "reference.safetensors")
    print(name, [round(x, 2) for x in rows[-1][-1][:4].tolist()])


def main():
    target = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or FAMILIES:
        make(name, target / name)


if __name__ == "__main__":
    main()
