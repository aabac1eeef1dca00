"""Train a small GPT whose second layer has attention of order 3: `python examples/tiny_gpt.py` (a minute or two)."""

from pydoc_data.topics import topics

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import separatrix as sx


class Block(nn.Module):
    def __init__(self, width: int, heads: int, order: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        # Each query attends pairs: one key among the last 64 tokens, the other among the last 16.
        windows = None if order == 2 else (64, 16)
        self.attention = sx.nn.TensorAttention(width, heads, order=order, windows=windows)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), is_causal=True)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, characters: int, length: int, width: int = 64, heads: int = 8) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(characters, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(Block(width, heads, order=2), Block(width, heads, order=3))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, characters))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.position(torch.arange(tokens.shape[-1]))
        return self.head(self.blocks(x))


def train(steps: int, length: int = 64, batch: int = 16) -> list[float]:
    """Train on the help texts of Python, character by character, and return the loss of every step."""
    text = "".join(topics[name] for name in sorted(topics))
    alphabet = sorted(set(text))
    tokens = torch.tensor([alphabet.index(character) for character in text[:200_000]])
    torch.manual_seed(0)
    model, losses = GPT(len(alphabet), length), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        starts = torch.randint(len(tokens) - length, (batch, 1))
        window = tokens[starts + torch.arange(length + 1)]
        loss = F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 20 == 0:
            print(f"step {step}: loss {losses[-1]:.3f} nats per character")
    return losses


if __name__ == "__main__":
    train(400)
