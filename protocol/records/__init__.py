"""Record batches: layout, validation, compression. The only part of `protocol` that storage may import."""
