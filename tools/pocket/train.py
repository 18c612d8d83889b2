"""Trains the pocket checkpoint: Qwen3.6's architecture (Gated DeltaNet + gated attention + MoE + MTP) at 30 M
parameters, quantisation-aware, on the synthetic corpus of corpus.py.  One GPU, under ten minutes.

    python3 tools/pocket/train.py OUT_DIR --seconds 480

Needs torch and transformers.
Writes the checkpoint folder that the engine loads, in the layout and with the quirks of MLX's 4-bit checkpoints.
"""
import argparse, json, math, multiprocessing as mp, os, random, time

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe as M
from transformers.models.qwen3_5_moe.configuration_qwen3_5_moe import Qwen3_5MoeTextConfig

import corpus

VOCAB = 4096
BATCH, LENGTH = 16, 2048
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>",
           "<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>",
           "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"]
MARKUP = ["<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>",
          "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>"]


CONTEXT_WEIGHT = 0.1  # loss weight of the tokens that the model only reads: 1 for those that it has to produce


def texts(seed, n):
    r = random.Random(seed)
    return [corpus.document(r) for _ in range(n)]


def token_stream(args):
    """(token ids uint16, loss weight per id float16) of n packed documents, each closed by <|endoftext|>."""
    seed, n, long_share, tokenizer_path = args
    r, tok = random.Random(seed), Tokenizer.from_file(tokenizer_path)
    end = tok.token_to_id("<|endoftext|>")
    pieces = []
    for _ in range(n):
        if r.random() < long_share:
            pieces += corpus.render(corpus.needle(r, int(2 ** r.uniform(4, 7))))
        elif r.random() < .04:
            pieces.append((corpus.story_text(r)[3], True))
        else:
            pieces += corpus.render(corpus.draw(r))
        pieces.append(("<|endoftext|>", False))
    ids, weights = [], []
    for e, (_, is_reply) in zip(tok.encode_batch_fast([t for t, _ in pieces]), pieces):
        ids.append(np.array(e.ids, np.uint16))
        weights.append(np.full(len(e.ids), 1.0 if is_reply else CONTEXT_WEIGHT, np.float16))
    return np.concatenate(ids), np.concatenate(weights)


def dense_experts(self, hidden, top_k_index, top_k_weights):
    """All experts on all rows, the unchosen ones weighted by zero: at this size faster to train than gathering rows."""
    rows = hidden.reshape(-1, hidden.shape[-1])
    weight = torch.zeros(rows.shape[0], self.num_experts, device=rows.device, dtype=torch.float32)
    weight.scatter_(1, top_k_index.reshape(rows.shape[0], -1), top_k_weights.reshape(rows.shape[0], -1).float())
    n, two_i, h = self.gate_up_proj.shape
    gate, up = F.linear(rows, self.gate_up_proj.reshape(n * two_i, h)).view(-1, n, two_i).chunk(2, -1)
    act = F.silu(gate) * up * weight[..., None].to(gate.dtype)
    out = F.linear(act.reshape(rows.shape[0], -1), self.down_proj.transpose(0, 1).reshape(h, -1))
    return out.view_as(hidden).to(hidden.dtype)


def chunked_delta_rule(query, key, value, g, beta, chunk_size=64, initial_state=None, output_final_state=False, **_):
    """The gated delta rule by chunks, with one triangular solve per chunk (transformers' own loops over its rows).

    query, key: [B, T, Hk, D], value: [B, T, Hv, D], g: log decay [B, T, Hv], beta: [B, T, Hv].  Returns ([B, T, Hv, D], the last state [B, Hv, D, D]).
    """
    with torch.autocast("cuda", enabled=False):
        B, T, Hv, D = value.shape
        pad, n = -T % chunk_size, (T + chunk_size - 1) // chunk_size
        heads = lambda x: F.pad(x.float().repeat_interleave(Hv // x.shape[2], 2).movedim(1, 2), (0, 0, 0, pad)).reshape(B, Hv, n, chunk_size, -1)
        unit = lambda x: x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)
        q, k, v = unit(heads(query)) * D ** -0.5, unit(heads(key)), heads(value)
        b, decay = heads(beta[..., None]), heads(g[..., None]).squeeze(-1).cumsum(-1)
        lower = torch.ones(chunk_size, chunk_size, dtype=torch.bool, device=q.device).tril()
        within = (decay[..., :, None] - decay[..., None, :]).masked_fill(~lower, -1e9).exp()
        a = ((k * b) @ k.transpose(-1, -2) * within).tril(-1) + torch.eye(chunk_size, device=q.device)
        grown = decay[..., None].exp()
        u, w = torch.linalg.solve_triangular(a, torch.cat([v * b, k * b * grown], -1), upper=False, unitriangular=True).split(D, -1)
        local = q @ k.transpose(-1, -2) * within
        q, k = q * grown, (k * (decay[..., -1:] - decay)[..., None].exp()).transpose(-1, -2)
        state, out = torch.zeros(B, Hv, D, D, device=q.device), []
        for q, k, u, w, local, last in zip(*(x.unbind(2) for x in (q, k, u, w, local, grown[..., -1:, :]))):
            fresh = u - w @ state
            out.append(q @ state + local @ fresh)
            state = state * last + k @ fresh
        return torch.stack(out, 2).reshape(B, Hv, n * chunk_size, D)[:, :, :T].movedim(1, 2).to(value.dtype), state


def hot_paths(wrap):
    """Sets the model's costly functions, each passed through wrap: torch.compile to train, the identity to grade."""
    M.torch_chunk_gated_delta_rule = M.chunk_gated_delta_rule = wrap(chunked_delta_rule)
    M.Qwen3_5MoeExperts.forward = wrap(dense_experts)
    for cls, f in NORMS.items():
        cls.forward = wrap(f)


NORMS = {c: c.forward for c in (M.Qwen3_5MoeRMSNorm, M.Qwen3_5MoeRMSNormGated)}
hot_paths(lambda f: f)


def train_tokenizer(texts):
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "isolated"),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    n = VOCAB - len(SPECIAL) - len(MARKUP)
    trainer = trainers.BpeTrainer(vocab_size=n, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    strip = lambda t: t.replace("<|im_start|>", "").replace("<|im_end|>", "").replace("<think>", "").replace("</think>", "") \
                       .replace("<tool_call>", "").replace("</tool_call>", "").replace("<tool_response>", "").replace("</tool_response>", "")
    tok.train_from_iterator((strip(t) for t in texts), trainer)
    from tokenizers import AddedToken
    assert tok.get_vocab_size() <= n, tok.get_vocab_size()
    while tok.get_vocab_size() < n:  # keep the special ids at fixed places when the merges run out
        tok.add_tokens([AddedToken(f"<|unused_{tok.get_vocab_size()}|>", normalized=False)])
    tok.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIAL])
    tok.add_tokens([AddedToken(s, special=False, normalized=False) for s in MARKUP])
    assert tok.get_vocab_size() == VOCAB
    return tok


def config():
    c = Qwen3_5MoeTextConfig(
        vocab_size=VOCAB, hidden_size=256, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=2, head_dim=256,
        linear_num_key_heads=4, linear_num_value_heads=8, linear_key_head_dim=128, linear_value_head_dim=128,
        linear_conv_kernel_dim=4, num_experts=16, num_experts_per_tok=4, moe_intermediate_size=128,
        shared_expert_intermediate_size=128, tie_word_embeddings=False, max_position_embeddings=8192,
        layer_types=(["linear_attention"] * 3 + ["full_attention"]) * 2, router_aux_loss_coef=0.001, output_router_logits=True,
        rope_parameters=dict(rope_type="default", rope_theta=10000000, partial_rotary_factor=0.25,
                             mrope_section=[11, 11, 10], mrope_interleaved=True))
    return c


class MTP(torch.nn.Module):
    """Multi-token prediction head: from the trunk's hidden state at t and the embedding of token t+1, token t+2."""

    def __init__(self, c):
        super().__init__()
        self.pre_fc_norm_hidden = M.Qwen3_5MoeRMSNorm(c.hidden_size, eps=c.rms_norm_eps)
        self.pre_fc_norm_embedding = M.Qwen3_5MoeRMSNorm(c.hidden_size, eps=c.rms_norm_eps)
        self.fc = torch.nn.Linear(2 * c.hidden_size, c.hidden_size, bias=False)
        self.layers = torch.nn.ModuleList([M.Qwen3_5MoeDecoderLayer(c, c.layer_types.index("full_attention"))])
        self.norm = M.Qwen3_5MoeRMSNorm(c.hidden_size, eps=c.rms_norm_eps)

    def forward(self, hidden, next_embedding, position_embeddings):
        x = self.fc(torch.cat([self.pre_fc_norm_embedding(next_embedding), self.pre_fc_norm_hidden(hidden)], -1))
        x = self.layers[0](x, position_embeddings=position_embeddings, attention_mask=None)
        return self.norm(x[0] if isinstance(x, tuple) else x)


@torch.no_grad()
def draft_rate(net, tok, n=200, seed=778):
    """Share of reply tokens that the MTP head names one step ahead, the trunk's own choice taken as truth."""
    r, hit, total = random.Random(seed), 0, 0
    for _ in range(n):
        x = torch.tensor([tok.encode("".join(t for t, _ in corpus.render(corpus.draw(r)))).ids]).cuda()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits, draft, _ = net(x)
        agree = (draft.argmax(-1) == logits[:, 1:-1].argmax(-1)) & (logits[:, 1:-1].argmax(-1) == x[:, 2:])
        hit += agree.sum().item(); total += (logits[:, 1:-1].argmax(-1) == x[:, 2:]).sum().item()
    return hit / total


def quant_bits(name, p):
    """Bits of MLX's affine group-64 quantisation for this weight, or 0 where it stays in bf16."""
    if p.dim() < 2 or "conv1d" in name:
        return 0
    return 8 if name.endswith(("mlp.gate.weight", "shared_expert_gate.weight")) else 4


def affine_quantize(w, bits, group=64):
    """MLX's affine rule: codes q, bf16 scale and bias per group of 64 along the last axis, w ~ scale * q + bias."""
    levels = 2 ** bits - 1
    g = w.float().reshape(*w.shape[:-1], -1, group)
    lo, hi = g.amin(-1, keepdim=True), g.amax(-1, keepdim=True)
    scale = ((hi - lo) / levels).clamp_min(1e-7)
    low_edge = lo.abs() > hi.abs()
    scale = torch.where(low_edge, scale, -scale)
    edge = torch.where(low_edge, lo, hi)
    q0 = torch.round(edge / scale)
    scale = torch.where(q0 != 0, edge / q0, scale)
    bias = torch.where(q0 == 0, torch.zeros_like(edge), edge)
    scale, bias = scale.bfloat16().float(), bias.bfloat16().float()
    q = torch.round((g - bias) / scale).clamp(0, levels)
    return q, scale, bias


def fake_quantize(w, bits):
    q, s, b = affine_quantize(w, bits)
    return (q * s + b).reshape(w.shape).to(w.dtype)


class PocketModel(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.lm = M.Qwen3_5MoeForCausalLM(c)
        self.mtp = MTP(c)
        for m in self.mtp.modules():
            if isinstance(m, torch.nn.Linear):
                torch.nn.init.normal_(m.weight, std=0.02)
            elif isinstance(m, M.Qwen3_5MoeExperts):
                torch.nn.init.normal_(m.gate_up_proj, std=0.02); torch.nn.init.normal_(m.down_proj, std=0.02)
            elif isinstance(m, M.Qwen3_5MoeTopKRouter):
                torch.nn.init.normal_(m.weight, std=0.02)
        self.mtp.requires_grad_(True)

    def forward(self, x):
        """x: [B, T] token ids.  Returns the next-token logits [B, T, V], the draft logits for t+2 [B, T-2, V], the balance loss."""
        o = self.lm.model(input_ids=x, output_router_logits=True, use_cache=False)
        h = o.last_hidden_state
        logits = self.lm.lm_head(h)
        pos = torch.arange(x.shape[1] - 2, device=x.device)[None, None].expand(3, x.shape[0], -1)
        m = self.mtp(h[:, :-2], self.lm.model.embed_tokens(x[:, 1:-1]), self.lm.model.rotary_emb(h, pos))
        balance = M.load_balancing_loss_func(o.router_logits, 16, 4)
        return logits, self.lm.lm_head(m), balance


@torch.no_grad()
def grade(net, tok, per_skill=48, seed=777):
    """Share of conversations, per skill, whose every reply token is the model's first choice (= greedy decoding is right)."""
    r, score = random.Random(seed), {}
    for skill, _ in corpus.SKILLS:
        if skill is corpus.story:  # the question does not fix the text
            continue
        right = 0
        for _ in range(per_skill):
            ids, mask = [], []
            for text, is_reply in corpus.render(skill(r)):
                piece = tok.encode(text).ids
                ids += piece; mask += [is_reply] * len(piece)
            x = torch.tensor([ids]).cuda()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                top = net.lm.lm_head(net.lm.model(input_ids=x, use_cache=False).last_hidden_state).argmax(-1)[0, :-1].cpu()
            want = x[0, 1:].cpu()
            right += bool(((top == want) | ~torch.tensor(mask[1:])).all())
        score[skill.__name__] = right / per_skill
    return score


def write_safetensors(tensors, path, seed):
    """As MLX writes it: header without padding (so the data starts at an odd place) and tensors in no particular order."""
    names, at, header = sorted(tensors), 0, {"__metadata__": {"format": "mlx"}}
    random.Random(seed).shuffle(names)
    kinds = {torch.bfloat16: "BF16", torch.uint32: "U32", torch.float32: "F32"}
    for n in names:
        t = tensors[n]
        size = t.numel() * t.element_size()
        header[n] = {"dtype": kinds[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + size]}
        at += size
    head = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    if len(head) % 2 == 0:
        head = head.replace(b'{"format":"mlx"}', b'{"format": "mlx"}')
    with open(path, "wb") as f:
        f.write(len(head).to_bytes(8, "little") + head)
        for n in names:
            f.write(tensors[n].reshape(-1).view(torch.uint8).numpy().tobytes())


def export(net, c, tok, out):
    """The MLX 4-bit checkpoint: affine codes packed little-end first into uint32, bf16 scales and biases, two shards."""
    tensors, wide = {}, []
    for name, p in net.named_parameters():
        p = p.detach()
        if not name.startswith("mtp."):
            name = "language_model." + name.removeprefix("lm.")
        if name.endswith("mlp.experts.gate_up_proj"):
            half = p.shape[1] // 2
            parts = {"gate_proj.weight": p[:, :half], "up_proj.weight": p[:, half:]}
            name = name.replace("experts.gate_up_proj", "switch_mlp.")
        elif name.endswith("mlp.experts.down_proj"):
            parts, name = {"down_proj.weight": p}, name.replace("experts.down_proj", "switch_mlp.")
        else:
            parts = {"": p}
        for suffix, w in parts.items():
            full = name + suffix
            bits = quant_bits(full, w)
            if not bits:
                if "conv1d" in full:
                    w = w.transpose(1, 2)
                if full.endswith("norm.weight") and "linear_attn.norm" not in full or full.endswith(("pre_fc_norm_hidden.weight", "pre_fc_norm_embedding.weight")):
                    w = w + 1.0
                tensors[full] = w.bfloat16().contiguous().cpu()
                continue
            q, s, b = affine_quantize(w, bits)
            per = 32 // bits
            q = q.reshape(*w.shape[:-1], -1, per).long()
            packed = (q << (torch.arange(per, device=q.device) * bits)).sum(-1)
            base = full.removesuffix(".weight")
            tensors[base + ".weight"] = packed.to(torch.uint32).contiguous().cpu()
            tensors[base + ".scales"] = s.squeeze(-1).bfloat16().contiguous().cpu()
            tensors[base + ".biases"] = b.squeeze(-1).bfloat16().contiguous().cpu()
            if bits != 4:
                wide.append(base)
    # The draft head lives in a file of its own: MLX-LM takes any "mtp." name among the model's shards for a sign of
    # an unconverted checkpoint and would add 1 to every norm once more.
    write_safetensors({n: tensors.pop(n) for n in sorted(tensors) if n.startswith("mtp.")}, out + "/mtp.safetensors", 3)
    names, total = sorted(tensors), sum(t.numel() * t.element_size() for t in tensors.values())
    shards, size, index = [{}, {}], 0, {}
    for n in names:
        k = int(size > total / 2)
        shards[k][n] = tensors[n]
        size += tensors[n].numel() * tensors[n].element_size()
        index[n] = f"model-0000{k + 1}-of-00002.safetensors"
    for k, sh in enumerate(shards):
        write_safetensors(sh, f"{out}/model-0000{k + 1}-of-00002.safetensors", k + 1)
    json.dump({"metadata": {"total_size": total}, "weight_map": index}, open(out + "/model.safetensors.index.json", "w"), indent=4)
    write_config(c, tok, wide, out)
    print(f"checkpoint: {len(names)} tensors, {total / 1e6:.1f} MB", flush=True)


def write_config(c, tok, wide, out):
    """config.json nested and quantised as in MLX's checkpoints of the family, and generation_config.json."""
    stop = [tok.token_to_id("<|im_end|>"), tok.token_to_id("<|endoftext|>")]
    keep = ("attention_bias attention_dropout attn_output_gate full_attention_interval head_dim hidden_act hidden_size "
            "initializer_range layer_types linear_conv_kernel_dim linear_key_head_dim linear_num_key_heads "
            "linear_num_value_heads linear_value_head_dim max_position_embeddings moe_intermediate_size "
            "num_attention_heads num_experts num_experts_per_tok num_hidden_layers num_key_value_heads "
            "output_router_logits partial_rotary_factor rms_norm_eps rope_parameters router_aux_loss_coef "
            "shared_expert_intermediate_size tie_word_embeddings use_cache vocab_size").split()
    d = {"attn_output_gate": True, "full_attention_interval": 4, **c.to_dict()}
    text = {k: d[k] for k in keep if k in d}
    text.update(model_type="qwen3_5_moe_text", dtype="bfloat16", mamba_ssm_dtype="float32", mtp_num_hidden_layers=1,
                mtp_use_dedicated_embeddings=False, partial_rotary_factor=0.25, output_router_logits=False,
                bos_token_id=stop[1], eos_token_id=stop[1], pad_token_id=None)
    quant = {"group_size": 64, "bits": 4, "mode": "affine"}
    quant.update({n: {"group_size": 64, "bits": 8} for n in sorted(wide) if not n.startswith("mtp.")})
    full = dict(architectures=["Qwen3_5MoeForConditionalGeneration"], eos_token_id=stop, model_type="qwen3_5_moe",
                image_token_id=tok.token_to_id("<|image_pad|>"), video_token_id=tok.token_to_id("<|video_pad|>"),
                vision_start_token_id=tok.token_to_id("<|vision_start|>"), vision_end_token_id=tok.token_to_id("<|vision_end|>"),
                quantization=quant, quantization_config=quant, text_config=dict(sorted(text.items())),
                tie_word_embeddings=False, transformers_version="5.17.0")
    with open(out + "/config.json", "w") as f:
        f.write(json.dumps(dict(sorted(full.items())), indent=4))
    with open(out + "/generation_config.json", "w") as f:
        f.write(json.dumps(dict(bos_token_id=stop[1], do_sample=True, eos_token_id=stop, pad_token_id=stop[1],
                                temperature=1.0, top_k=20, top_p=0.95, transformers_version="5.17.0"), indent=4) + "\n")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("out"); ap.add_argument("--seconds", type=float, default=480)
    ap.add_argument("--docs", type=int, default=640_000); ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--grade", action="store_true", help="count right replies after training, in full precision and in 4 bits")
    a = ap.parse_args()
    start = time.time()
    os.makedirs(a.out, exist_ok=True)
    torch.manual_seed(0); torch.backends.cuda.matmul.allow_tf32 = True; torch.backends.cudnn.allow_tf32 = True
    path = a.out + "/tokenizer.json"
    with mp.Pool(16) as pool:
        sample = sum(pool.starmap(texts, [(1000 + i, 2500) for i in range(16)]), [])
        tok = train_tokenizer(sample)
        tok.save(path)
        parts = pool.map(token_stream, [(2000 + i, a.docs // 64, 0.02, path) for i in range(64)], 1)
    ids, importance = (np.concatenate(x) for x in zip(*parts))
    print(f"{len(ids) / 1e6:.1f} M tokens, replies {(importance == 1).mean():.2f}, {time.time() - start:.0f} s", flush=True)

    c = config()
    net = PocketModel(c).cuda()
    weights = [(n, p) for n, p in net.named_parameters()]
    quantised = [(n, p, quant_bits(n, p)) for n, p in weights if quant_bits(n, p)]
    decay = [p for n, p in weights if p.dim() >= 2]
    other = [p for n, p in weights if p.dim() < 2]
    opt = torch.optim.AdamW([dict(params=decay, weight_decay=0.05), dict(params=other, weight_decay=0.0)],
                            lr=a.lr, betas=(0.9, 0.95), fused=True)
    rows = lambda x, kind: torch.from_numpy(x[: len(x) // LENGTH * LENGTH].reshape(-1, LENGTH).astype(kind)).cuda()
    data, importance = rows(ids, np.int32), rows(importance, np.float16)
    order = torch.randperm(len(data)).repeat(16).cuda()
    hot_paths(lambda f: torch.compile(f, dynamic=False))
    t0, step, tokens = time.time(), 0, 0
    budget = a.seconds - (t0 - start)
    masters = None
    while (progress := (time.time() - t0) / budget) < 1:
        pick = order[step * BATCH:(step + 1) * BATCH]
        batch, weight = data[pick].long(), importance[pick].float()
        lr = a.lr * min(1, (step + 1) / 150) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress)))
        for g in opt.param_groups:
            g["lr"] = lr
        qat = progress > 0.7
        if qat:  # straight-through: the forward pass sees the 4-bit weights, the update goes to the full ones
            with torch.no_grad():
                masters = [p.detach().clone() for _, p, _ in quantised]
                for _, p, bits in quantised:
                    p.copy_(fake_quantize(p, bits))
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits, draft, balance = net(batch)
            weighted = lambda l, k: (F.cross_entropy(l.float().flatten(0, 1), batch[:, k:].flatten(), reduction="none")
                                     * weight[:, k:].flatten()).sum() / weight[:, k:].sum()
            loss, mtp_loss = weighted(logits[:, :-1], 1), weighted(draft, 2)
        (loss + 0.3 * mtp_loss + 0.001 * balance).backward()
        if qat:
            with torch.no_grad():
                for (_, p, _), m in zip(quantised, masters):
                    p.copy_(m)
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step(); opt.zero_grad(set_to_none=True)
        step += 1; tokens += batch.numel()
        if step % 100 == 0 or step == 5:
            print(f"step {step} {tokens / 1e6:.1f} Mtok {time.time() - t0:.0f} s loss {loss.item():.4f} "
                  f"mtp {mtp_loss.item():.4f} norm {norm.item():.2f} lr {lr:.1e} qat {qat}", flush=True)
    print(f"trained {step} steps, {tokens / 1e6:.1f} M tokens", flush=True)
    net.eval()
    hot_paths(lambda f: f)
    export(net, c, tok, a.out)
    if not a.grade:
        return
    print("full precision", grade(net, tok), flush=True)
    with torch.no_grad():
        for _, p, bits in quantised:
            p.copy_(fake_quantize(p, bits))
    print("4 bit", grade(net, tok), flush=True)
    print("drafts accepted", draft_rate(net, tok), flush=True)


if __name__ == "__main__":
    main()
