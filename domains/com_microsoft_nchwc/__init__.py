"""The blocked layout that onnxruntime rewrites the convolutions of an image network into."""
