"""Declarations of streams that are proposed from samples of their files."""

from moirae.inspect.inference.stream_inference import ProposedStream, propose_stream

__all__ = ["ProposedStream", "propose_stream"]
