"""An independent answer for the pocket checkpoint: transformers' Qwen3.5-MoE in fp32 on the dequantised weights.

    cd tools/pocket
    python3 oracle.py CHECKPOINT grade                          share of right replies per skill (teacher-forced, every token)
    python3 oracle.py CHECKPOINT golden OUT.json [SEED]         tests/golden/answers.json: ids, log-probabilities, greedy continuations
    python3 oracle.py CHECKPOINT full OUT.safetensors [SEED]    tests/golden/full.safetensors: whole distributions at 192 positions,
                                                                the draft head's too

Needs torch, transformers, tokenizers and safetensors.  Nothing of the engine is used.
"""
import json
import random
import sys

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe as M
from transformers.models.qwen3_5_moe.configuration_qwen3_5_moe import Qwen3_5MoeTextConfig

import corpus


def dequantize(codes, scales, biases, bits):
    """uint32 [.., O, I*bits/32] with bf16 [.., O, I/64] scales and biases -> fp32 [.., O, I]."""
    shift = torch.arange(32 // bits) * bits
    q = (codes.to(torch.int64).unsqueeze(-1) >> shift & (2 ** bits - 1)).flatten(-2).float()
    q = q.unflatten(-1, (scales.shape[-1], -1))
    return (q * scales.float().unsqueeze(-1) + biases.float().unsqueeze(-1)).flatten(-2)


def load(folder):
    """(model in fp32 and eval mode, tokenizer) from an MLX checkpoint folder."""
    cfg = json.load(open(folder + "/config.json"))
    text = {k: v for k, v in cfg["text_config"].items() if k not in ("model_type", "dtype")}
    model = M.Qwen3_5MoeForCausalLM(Qwen3_5MoeTextConfig(**text, attn_implementation="eager")).eval()
    shards = sorted(set(json.load(open(folder + "/model.safetensors.index.json"))["weight_map"].values()))
    fill(model, read(folder, shards, cfg["quantization"]))
    return model, Tokenizer.from_file(folder + "/tokenizer.json")


class DraftHead(torch.nn.Module):
    """The multi-token-prediction layer: the trunk's normed state at t and token t+1 give a state whose logits name token t+2."""

    def __init__(self, c):
        super().__init__()
        self.pre_fc_norm_hidden = M.Qwen3_5MoeRMSNorm(c.hidden_size, eps=c.rms_norm_eps)
        self.pre_fc_norm_embedding = M.Qwen3_5MoeRMSNorm(c.hidden_size, eps=c.rms_norm_eps)
        self.fc = torch.nn.Linear(2 * c.hidden_size, c.hidden_size, bias=False)
        self.layers = torch.nn.ModuleList([M.Qwen3_5MoeDecoderLayer(c, c.layer_types.index("full_attention"))])
        self.norm = M.Qwen3_5MoeRMSNorm(c.hidden_size, eps=c.rms_norm_eps)

    def forward(self, hidden, token_embedding, rotary):
        x = self.fc(torch.cat([self.pre_fc_norm_embedding(token_embedding), self.pre_fc_norm_hidden(hidden)], -1))
        causal = torch.full((x.shape[1], x.shape[1]), torch.finfo(x.dtype).min).triu(1)[None, None]
        x = self.layers[0](x, position_embeddings=rotary, attention_mask=causal)
        return self.norm(x[0] if isinstance(x, tuple) else x)


def load_draft_head(folder, model):
    cfg = json.load(open(folder + "/config.json"))
    head = DraftHead(model.config).eval()
    fill(head, {n.removeprefix("mtp."): w for n, w in read(folder, ["mtp.safetensors"], cfg["quantization"]).items()})
    return head


def read(folder, files, quantization):
    """{name: fp32 tensor} in transformers' conventions: dequantised, norms without the 1, conv as [C, 1, K], experts stacked."""
    raw, state = {}, {}
    for file in files:
        with safe_open(f"{folder}/{file}", "pt") as f:
            raw.update({n: f.get_tensor(n) for n in f.keys()})
    for name, w in raw.items():
        if name.endswith((".scales", ".biases")):
            continue
        base = name.removesuffix(".weight")
        if base + ".scales" in raw:
            wide = base.endswith((".mlp.gate", ".shared_expert_gate"))
            bits = quantization.get(base, {"bits": 8} if wide and base.startswith("mtp.") else quantization)["bits"]
            w = dequantize(w, raw[base + ".scales"], raw[base + ".biases"], bits)
        w = w.float()
        if "conv1d" in name:
            w = w.transpose(1, 2)
        if name.endswith(("norm.weight", "norm_hidden.weight", "norm_embedding.weight")) and "linear_attn.norm" not in name:
            w = w - 1.0
        state[name.removeprefix("language_model.")] = w
    for name in [n for n in state if n.endswith("switch_mlp.gate_proj.weight")]:
        at = name.removesuffix("switch_mlp.gate_proj.weight")
        gate, up, down = (state.pop(f"{at}switch_mlp.{k}_proj.weight") for k in ("gate", "up", "down"))
        state[at + "experts.gate_up_proj"] = torch.cat([gate, up], 1)
        state[at + "experts.down_proj"] = down
    return state


def fill(module, state):
    missing = module.load_state_dict(state, strict=False)
    assert not missing.unexpected_keys and not [k for k in missing.missing_keys if "inv_freq" not in k], missing


def encode(tok, conversation):
    """(ids, which of them the model has to produce) of a conversation of corpus.py."""
    ids, mine = [], []
    for text, is_reply in corpus.render(conversation):
        piece = tok.encode(text).ids
        ids += piece
        mine += [is_reply] * len(piece)
    return ids, mine


@torch.no_grad()
def log_probs(model, ids):
    """[T, V] fp32 natural-log probabilities of the token after each position."""
    return model(torch.tensor([ids]), use_cache=False).logits[0].log_softmax(-1)


def grade(model, tok, n=48, seed=777):
    r = random.Random(seed)
    for skill, _ in corpus.SKILLS:
        if skill is corpus.story:  # the question does not fix the text
            continue
        right = 0
        for _ in range(n):
            ids, mine = encode(tok, skill(r))
            top = log_probs(model, ids).argmax(-1).tolist()
            right += all(top[i - 1] == ids[i] for i in range(1, len(ids)) if mine[i])
        print(f"{skill.__name__:12s} {right / n:.2f}", flush=True)


def golden(model, tok, out, n=4, seed=4242):
    """Per skill n conversations: ids, per position the top five (id, log-probability) and the log-probability of the token
    that follows; and the greedy continuation of the conversation up to its last reply, at most 96 tokens."""
    r, rows = random.Random(seed), []
    for skill, _ in corpus.SKILLS:
        for _ in range(n):
            c = skill(r)
            ids, mine = encode(tok, c)
            lp = log_probs(model, ids)
            best = lp.topk(5)
            start = max(i for i in range(len(ids)) if mine[i] and not mine[i - 1])
            x = ids[:start]
            while len(x) < start + 96 and (len(x) == start or x[-1] not in (4070, 4072)):
                x.append(int(log_probs(model, x)[-1].argmax()))
            rows.append(dict(skill=skill.__name__, thinking=c.thinking, messages=c.messages, tools=c.tools, ids=ids,
                             next_log_prob=[round(float(lp[i, ids[i + 1]]), 5) for i in range(len(ids) - 1)],
                             top_ids=best.indices.tolist(), top_log_probs=[[round(v, 5) for v in row] for row in best.values.tolist()],
                             prompt_length=start, greedy=x[start:], greedy_text=tok.decode(x[start:], skip_special_tokens=False)))
            print(skill.__name__, repr(rows[-1]["greedy_text"][:70]), flush=True)
    json.dump(dict(source="transformers fp32, dequantised weights", rows=rows), open(out, "w"), ensure_ascii=False)


@torch.no_grad()
def full(model, head, tok, out, seed=4243):
    """Eight conversations, the last 24 positions of each: sK.ids [T] i32, sK.log_probs [24, V] f32 (row i: the token after
    position T-24+i) and sK.draft_log_probs [22, V] f32 (row i: the draft for position T-24+i+2)."""
    r, tensors, agree = random.Random(seed), {}, []
    for k, skill in enumerate([s for s, _ in corpus.SKILLS][:8]):
        ids, _ = encode(tok, skill(r))
        x = torch.tensor([ids])
        hidden = model.model(x, use_cache=False).last_hidden_state
        rotary = model.model.rotary_emb(hidden, torch.arange(len(ids) - 1)[None, None].expand(3, 1, -1))
        draft = model.lm_head(head(hidden[:, :-1], model.model.embed_tokens(x[:, 1:]), rotary))[0].log_softmax(-1)
        lp = model.lm_head(hidden)[0].log_softmax(-1)
        tensors |= {f"s{k}.ids": torch.tensor(ids, dtype=torch.int32), f"s{k}.log_probs": lp[-24:].contiguous(),
                    f"s{k}.draft_log_probs": draft[-23:-1].contiguous()}
        agree += (draft[-23:-1].argmax(-1) == lp[-23:-1].argmax(-1)).tolist()
    save_file(tensors, out)
    print(f"drafts that name the trunk's choice: {sum(agree)} of {len(agree)}")


if __name__ == "__main__":
    folder, job, *rest = sys.argv[1:]
    model, tok = load(folder)
    seed = {"seed": int(rest[1])} if len(rest) > 1 else {}
    if job == "grade":
        grade(model, tok)
    elif job == "golden":
        golden(model, tok, rest[0], **seed)
    else:
        full(model, load_draft_head(folder, model), tok, rest[0], **seed)
